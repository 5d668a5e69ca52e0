#include "base/process/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace gemmd {
namespace {

struct Descriptor {
  ~Descriptor() {
    if (number >= 0) close(number);
  }
  const int number;
};

absl::Status CannotRead() {
  const std::string text = absl::StrCat("cannot be read: ", std::strerror(errno));
  return errno == ENOENT ? absl::NotFoundError(text) : absl::InvalidArgumentError(text);
}

}  // namespace

absl::StatusOr<std::string> ReadRegularFile(const std::string& path, std::size_t most_bytes) {
  // O_NONBLOCK: a pipe is opened without waiting for its writer, and refused.
  const Descriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
  struct stat status {};
  if (file.number < 0 || fstat(file.number, &status) != 0) return CannotRead();
  if (!S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError("cannot be read: it is no regular file");
  }
  std::string text;
  // The file may grow meanwhile, and files of /proc say that they are empty.
  constexpr std::size_t kPart = 1 << 16;
  while (text.size() <= most_bytes) {
    const std::size_t before = text.size();
    text.resize(before + std::min(kPart, most_bytes + 1 - before));
    const ssize_t got = read(file.number, &text[before], text.size() - before);
    text.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && errno != EINTR) return CannotRead();
    if (got == 0) return text;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("has more than ", most_bytes, " bytes, which is the limit"));
}

}  // namespace gemmd
