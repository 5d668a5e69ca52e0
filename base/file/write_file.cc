#include "base/file/write_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <random>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/file/attributes.h"
#include "base/file/file_target.h"

namespace gemmd {
namespace {

using Parts = absl::Span<const absl::string_view>;

absl::Status Error(const std::string& path, absl::string_view doing) {
  return absl::ErrnoToStatus(errno, absl::StrCat(path, ": ", doing));
}

absl::Status WriteAll(const std::string& path, int descriptor, Parts parts) {
  for (absl::string_view part : parts) {
    while (!part.empty()) {
      const ssize_t written = ::write(descriptor, part.data(), part.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return Error(path, "write");
      part.remove_prefix(static_cast<std::size_t>(written));
    }
  }
  return absl::OkStatus();
}

// Closes it, and tells of that only where nothing failed before.
absl::Status Close(const std::string& path, int descriptor, absl::Status status) {
  if (::close(descriptor) != 0 && status.ok()) return Error(path, "close");
  return status;
}

// Has the file system keep room for so many bytes, so that a full one is told of before any byte
// of the old file is gone. Where it keeps none ahead, writing will tell.
absl::Status Reserve(const std::string& path, int descriptor, off_t bytes) {
  struct stat before;
  if (::fstat(descriptor, &before) != 0) return Error(path, "stat");
  if (bytes == 0 || ::fallocate(descriptor, 0, 0, bytes) == 0) return absl::OkStatus();
  if (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINTR) return absl::OkStatus();
  absl::Status status = Error(path, "write");
  if (::ftruncate(descriptor, before.st_size) != 0) return Error(path, "truncate");
  return status;
}

absl::Status WriteInPlace(const std::string& path, const std::string& target, Parts parts) {
  const int descriptor = ::open(target.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) return Error(path, "open for writing");
  off_t bytes = 0;
  for (const absl::string_view part : parts) bytes += static_cast<off_t>(part.size());
  absl::Status status = Reserve(path, descriptor, bytes);
  if (status.ok()) status = WriteAll(path, descriptor, parts);
  if (status.ok() && ::ftruncate(descriptor, bytes) != 0) status = Error(path, "truncate");
  return Close(path, descriptor, status);
}

struct Temporary {
  int descriptor;
  std::string path;
};

// In the target's folder, so that a rename takes it there. open() applies umask and the folder's
// access list, as it would to the target.
absl::StatusOr<Temporary> CreateBeside(const std::string& path, const std::string& target,
                                       mode_t mode) {
  constexpr std::size_t kMostOfName = 200;  // with what is added no longer than a name may be
  const std::string name = target.substr(target.rfind('/') + 1).substr(0, kMostOfName);
  std::random_device random;
  do {
    const std::string beside =
        absl::StrCat(FolderOf(target), "/", name, ".", absl::Hex(random(), absl::kZeroPad8));
    const int descriptor = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (descriptor >= 0) return Temporary{descriptor, beside};
  } while (errno == EEXIST);
  return Error(path, "create a temporary file beside it");
}

// `old` is the file that is there, or null.
absl::Status Replace(const std::string& path, const std::string& target, const struct stat* old,
                     Parts parts) {
  // Until it is made alike, the new file is its owner's alone: the old one's mode may keep others
  // out.
  const absl::StatusOr<Temporary> temporary =
      CreateBeside(path, target, old == nullptr ? 0666 : old->st_mode & 0700);
  if (!temporary.ok()) {
    return old == nullptr ? temporary.status() : WriteInPlace(path, target, parts);
  }
  absl::Status status = WriteAll(path, temporary->descriptor, parts);
  const bool is_alike =
      status.ok() && (old == nullptr || MakeAlike(temporary->descriptor, target, *old));
  status = Close(path, temporary->descriptor, status);
  if (is_alike && status.ok() && ::rename(temporary->path.c_str(), target.c_str()) == 0) {
    return status;
  }
  if (status.ok()) {
    status = old == nullptr ? Error(path, "rename") : WriteInPlace(path, target, parts);
    if (!status.ok()) {
      return {status.code(),
              absl::StrCat(status.message(), "; what was to be written is in ", temporary->path)};
    }
  }
  ::unlink(temporary->path.c_str());
  return status;
}

FileTarget TargetOf(const std::string& path) {
  if (path == "-") return {path, STDOUT_FILENO};
  return FollowLinks(path);
}

absl::Status CheckDescriptor(const std::string& path, int descriptor) {
  const int flags = ::fcntl(descriptor, F_GETFL);
  if (flags < 0) return Error(path, "write");
  if ((flags & O_ACCMODE) != O_RDONLY) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, ": is open for reading alone"));
}

}  // namespace

absl::Status CheckWritable(const std::string& path) {
  const FileTarget target = TargetOf(path);
  if (target.descriptor) return CheckDescriptor(path, *target.descriptor);
  struct stat info;
  if (::stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": is a directory"));
    }
    if (S_ISSOCK(info.st_mode)) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": is a socket"));
    }
    return ::access(path.c_str(), W_OK) == 0 ? absl::OkStatus() : Error(path, "write");
  }
  if (errno != ENOENT) return Error(path, "write");
  if (::access(FolderOf(target.path).c_str(), W_OK | X_OK) != 0) return Error(path, "write");
  return absl::OkStatus();
}

absl::Status WriteFile(const std::string& path, absl::Span<const absl::string_view> parts) {
  // A rename asks nobody whether the file that it replaces may be written.
  if (absl::Status status = CheckWritable(path); !status.ok()) return status;
  const FileTarget target = TargetOf(path);
  if (target.descriptor) {
    return WriteAll(path == "-" ? "standard output" : path, *target.descriptor, parts);
  }
  struct stat old;
  if (::stat(path.c_str(), &old) != 0) return Replace(path, target.path, nullptr, parts);
  if (S_ISREG(old.st_mode)) return Replace(path, target.path, &old, parts);
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) return Error(path, "open for writing");
  return Close(path, descriptor, WriteAll(path, descriptor, parts));
}

}  // namespace gemmd
