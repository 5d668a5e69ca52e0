#include "client/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/process/cpu_share.h"
#include "base/sync/thread_loop.h"

namespace gemmd::client {
namespace {

absl::Status Error(const std::string& path, absl::string_view doing) {
  return absl::ErrnoToStatus(errno, absl::StrCat(path, ": ", doing));
}

// Returns whether the path names something other than a regular file or folder: /dev/stdout, a
// pipe.
bool IsSpecial(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

// The file a symbolic link leads to, so that a rename replaces that and not the link.
std::string Resolve(const std::string& path) {
  char* resolved = ::realpath(path.c_str(), nullptr);
  if (resolved == nullptr) return path;
  std::string result = resolved;
  std::free(resolved);
  return result;
}

std::string Directory(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

absl::Status WriteAll(const std::string& path, int descriptor, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Error(path, "write");
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return absl::OkStatus();
}

// Writes and closes.
absl::Status WriteParts(const std::string& path, int descriptor,
                        absl::Span<const absl::string_view> parts) {
  absl::Status status;
  for (const absl::string_view part : parts) {
    status = WriteAll(path, descriptor, part);
    if (!status.ok()) break;
  }
  if (::close(descriptor) != 0 && status.ok()) status = Error(path, "close");
  return status;
}

// mkstemp makes files for their owner alone; this gives what open() would have.
void ApplyUmask(int descriptor) {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  // If this fails, the file keeps the narrower mode.
  if (::fchmod(descriptor, 0666 & ~mask) != 0) return;
}

}  // namespace

absl::StatusOr<InputFile> InputFile::Open(const std::string& path) {
  // O_NONBLOCK, so that a pipe without a writer is refused below and not waited for.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return Error(path, "open");
  struct stat info;
  if (::fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(descriptor);
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": not a regular file; pipes and directories are not accepted"));
  }
  return InputFile(path, descriptor, static_cast<std::uint64_t>(info.st_size));
}

InputFile::InputFile(std::string path, int descriptor, std::uint64_t size_bytes)
    : path_(std::move(path)), descriptor_(descriptor), size_bytes_(size_bytes) {}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_bytes_(other.size_bytes_) {}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

absl::StatusOr<std::string> InputFile::Read(std::uint64_t offset, std::uint64_t bytes) const {
  std::string text(bytes, '\0');
  if (absl::Status status = ReadInto(offset, bytes, text.data()); !status.ok()) return status;
  return text;
}

absl::StatusOr<Bytes> InputFile::ReadLarge(std::uint64_t offset, std::uint64_t bytes) const {
  constexpr std::uint64_t kPart = 16 << 20;  // less takes about as long as to start a thread
  Buffer buffer = Buffer::Allocate(bytes);
  const std::uint64_t count = (bytes + kPart - 1) / kPart;
  std::vector<absl::Status> ends(count);
  // One thread would copy from the page cache at a fraction of what memory gives, and wait for each
  // page of the buffer. A mapping would need no copy, and end the process where the file is cut.
  ForEachOnThreads(count, static_cast<std::size_t>(UsableCpus()), [&](std::size_t i) {
    const std::uint64_t begin = i * kPart;
    ends[i] = ReadInto(offset + begin, std::min(kPart, bytes - begin), buffer.data() + begin);
  });
  for (absl::Status& end : ends) {
    if (!end.ok()) return std::move(end);
  }
  return std::move(buffer).Freeze(bytes);
}

absl::Status InputFile::ReadInto(std::uint64_t offset, std::uint64_t bytes, char* to) const {
  std::uint64_t done = 0;
  while (done < bytes) {
    const ssize_t got =
        ::pread(descriptor_, to + done, bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error(path_, "read");
    if (got == 0) return absl::DataLossError(absl::StrCat(path_, ": shrank while it was read"));
    done += static_cast<std::uint64_t>(got);
  }
  return absl::OkStatus();
}

absl::Status CheckWritable(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": is a directory"));
    }
    if (!S_ISREG(info.st_mode)) {
      return ::access(path.c_str(), W_OK) == 0 ? absl::OkStatus() : Error(path, "write");
    }
  }
  // A rename needs the directory, not the file that it replaces.
  const std::string directory = Directory(Resolve(path));
  if (::access(directory.c_str(), W_OK | X_OK) != 0) return Error(path, "write");
  return absl::OkStatus();
}

absl::Status WriteFile(const std::string& path, absl::Span<const absl::string_view> parts) {
  if (IsSpecial(path)) {
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor < 0) return Error(path, "open for writing");
    return WriteParts(path, descriptor, parts);
  }
  const std::string target = Resolve(path);
  std::string temporary = absl::StrCat(target, ".XXXXXX");
  const int descriptor = ::mkostemp(&temporary[0], O_CLOEXEC);
  if (descriptor < 0) return Error(path, "create a temporary file beside it");
  ApplyUmask(descriptor);
  absl::Status status = WriteParts(path, descriptor, parts);
  if (status.ok() && ::rename(temporary.c_str(), target.c_str()) != 0) {
    status = Error(path, "rename");
  }
  if (!status.ok()) ::unlink(temporary.c_str());
  return status;
}

absl::Status WriteStandardOutput(absl::Span<const absl::string_view> parts) {
  for (const absl::string_view part : parts) {
    const absl::Status status = WriteAll("standard output", STDOUT_FILENO, part);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace gemmd::client
