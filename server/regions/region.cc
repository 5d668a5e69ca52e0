#include "server/regions/region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text/quoted.h"

namespace gemmd {
namespace {

// One pread or pwrite moves less than 2 GiB.
constexpr std::uint64_t kMaxTransfer = std::uint64_t{1} << 30;

absl::Status OpenError(const std::string& name, int error) {
  const std::string text = absl::StrCat("posix.name is ", Quoted(name),
                                        ", which cannot be opened: ", std::strerror(error));
  if (error == ENOENT) return absl::NotFoundError(text);
  if (error == EACCES || error == EPERM) return absl::PermissionDeniedError(text);
  if (error == EMFILE || error == ENFILE) return absl::ResourceExhaustedError(text);
  return absl::InvalidArgumentError(text);
}

}  // namespace

Region::Region(std::string name, std::string memory, std::uint64_t offset, std::uint64_t size_bytes,
               std::shared_ptr<void> share)
    : name_(std::move(name)),
      memory_(std::move(memory)),
      offset_(offset),
      size_bytes_(size_bytes),
      share_(std::move(share)) {}

Region::~Region() {
  mapping_.reset();
  if (file_ >= 0) close(file_);
}

absl::StatusOr<std::shared_ptr<const Region>> Region::Open(const PosixRegion& region,
                                                           Device* device,
                                                           std::shared_ptr<void> share) {
  const int file = shm_open(absl::StrCat("/", region.name).c_str(), O_RDWR | O_CLOEXEC, 0);
  if (file < 0) return OpenError(region.name, errno);
  std::shared_ptr<Region> opened(
      new Region(region.name, "", region.offset, region.bytes, std::move(share)));
  opened->file_ = file;
  struct stat status {};
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat("posix.name is ", Quoted(region.name), ", which is no shared memory"));
  }
  const auto file_bytes = static_cast<std::uint64_t>(status.st_size);
  if (region.offset > file_bytes || region.bytes > file_bytes - region.offset) {
    return absl::InvalidArgumentError(
        absl::StrCat("posix.offset_bytes is ", region.offset, " and posix.size_bytes ",
                     region.bytes, "; ", Quoted(region.name), " has ", file_bytes, " bytes"));
  }
  opened->memory_ = absl::StrCat("file ", status.st_dev, " ", status.st_ino);
  absl::StatusOr<std::shared_ptr<const SharedMapping>> mapping =
      device->MapShared(file, region.offset, region.bytes);
  if (!mapping.ok()) return mapping.status();
  opened->mapping_ = *std::move(mapping);
  return std::shared_ptr<const Region>(std::move(opened));
}

absl::StatusOr<std::shared_ptr<const Region>> Region::Open(const CudaRegion& region, Device* device,
                                                           std::shared_ptr<void> share) {
  std::shared_ptr<Region> opened(new Region(absl::StrCat("cuda", region.device),
                                            absl::StrCat("cuda ", region.device, region.handle),
                                            region.offset, region.bytes, std::move(share)));
  absl::StatusOr<std::shared_ptr<const SharedMapping>> mapping =
      device->MapDeviceMemory(region.handle, region.offset, region.bytes);
  if (!mapping.ok()) return mapping.status();
  opened->device_ = device;
  opened->mapping_ = *std::move(mapping);
  return std::shared_ptr<const Region>(std::move(opened));
}

absl::Status Region::CheckRange(absl::string_view field, std::uint64_t offset,
                                std::uint64_t bytes) const {
  // No sum is made that could wrap.
  if (offset <= size_bytes_ && bytes <= size_bytes_ - offset) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ".offset_bytes is ", offset, ", and the operand takes ", bytes,
                   " bytes from there; the region of ", Quoted(name_), " has ", size_bytes_));
}

absl::Status Region::CheckFile() const {
  if (!is_file()) return absl::OkStatus();
  struct stat status {};
  if (fstat(file_, &status) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("the region of ", Quoted(name_), " has no file: ", std::strerror(errno)));
  }
  const auto file_bytes = static_cast<std::uint64_t>(status.st_size);
  if (offset_ <= file_bytes && size_bytes_ <= file_bytes - offset_) return absl::OkStatus();
  return TruncatedError(file_bytes);
}

absl::Status Region::TruncatedError(std::uint64_t file_bytes) const {
  return absl::FailedPreconditionError(
      absl::StrCat("the region of ", Quoted(name_), " was cut short: it is bytes ", offset_, " to ",
                   offset_ + size_bytes_, " of a file that now has ", file_bytes));
}

bool Region::Overlaps(std::uint64_t offset, std::uint64_t bytes, const Region& other,
                      std::uint64_t other_offset, std::uint64_t other_bytes) const {
  // Both ranges were checked, so these sums are within their memory.
  const std::uint64_t begin = offset_ + offset;
  const std::uint64_t other_begin = other.offset_ + other_offset;
  return memory_ == other.memory_ && begin < other_begin + other_bytes &&
         other_begin < begin + bytes;
}

absl::Status Region::Read(std::uint64_t offset, void* to, std::uint64_t bytes) const {
  auto* next = static_cast<char*>(to);
  std::uint64_t at = offset_ + offset;
  while (bytes > 0) {
    const ssize_t count = pread(file_, next, std::min(bytes, kMaxTransfer), static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("the region of ", Quoted(name_), " cannot be read: ", std::strerror(errno)));
    }
    if (count == 0) return TruncatedError(at);
    next += count;
    at += static_cast<std::uint64_t>(count);
    bytes -= static_cast<std::uint64_t>(count);
  }
  return absl::OkStatus();
}

absl::Status Region::Write(std::uint64_t offset, const void* from, std::uint64_t bytes) const {
  const auto* next = static_cast<const char*>(from);
  std::uint64_t at = offset_ + offset;
  while (bytes > 0) {
    const ssize_t count =
        pwrite(file_, next, std::min(bytes, kMaxTransfer), static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      const std::string text = absl::StrCat("the region of ", Quoted(name_), " cannot be written: ",
                                            count == 0 ? "nothing goes in" : std::strerror(errno));
      return count < 0 && errno == ENOSPC ? absl::ResourceExhaustedError(text)
                                          : absl::FailedPreconditionError(text);
    }
    next += count;
    at += static_cast<std::uint64_t>(count);
    bytes -= static_cast<std::uint64_t>(count);
  }
  return absl::OkStatus();
}

}  // namespace gemmd
