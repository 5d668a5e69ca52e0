#include "server/rpc/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace gemmd {
namespace {

absl::StatusOr<int> NewFile(absl::string_view bytes, std::int64_t version) {
  const int descriptor = memfd_create("gemmd", MFD_CLOEXEC);
  if (descriptor < 0) {
    return absl::UnavailableError(absl::StrCat("no file in memory: ", std::strerror(errno)));
  }
  const timespec time{version, 0};
  const timespec times[2] = {time, time};
  if (write(descriptor, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()) ||
      futimens(descriptor, times) != 0) {
    close(descriptor);
    return absl::UnavailableError("a file in memory cannot be written");
  }
  return descriptor;
}

}  // namespace

absl::StatusOr<MemoryFile> MemoryFile::Make(absl::string_view bytes) {
  MemoryFile file;
  const absl::StatusOr<int> descriptor = NewFile(bytes, file.version_);
  if (!descriptor.ok()) return descriptor.status();
  file.descriptor_ = *descriptor;
  file.path_ = absl::StrCat("/proc/self/fd/", *descriptor);
  return file;
}

absl::Status MemoryFile::Replace(absl::string_view bytes) {
  const absl::StatusOr<int> descriptor = NewFile(bytes, ++version_);
  if (!descriptor.ok()) return descriptor.status();
  const bool is_replaced = dup3(*descriptor, descriptor_, O_CLOEXEC) >= 0;
  close(*descriptor);
  return is_replaced ? absl::OkStatus()
                     : absl::UnavailableError("a file in memory stays as it was");
}

}  // namespace gemmd
