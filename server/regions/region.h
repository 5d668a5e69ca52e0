// One piece of memory that a client on this host shares with the server.
//
// The server never touches a mapping of it on the CPU, because the client may cut the file
// short at any moment: bytes are read and written with pread and pwrite, which then say so, or
// by a device, on pages that it has locked.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/device/device.h"

namespace gemmd {

// Bytes [offset, offset + bytes) of the POSIX shared-memory object of that name.
struct PosixRegion {
  std::string name;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

// Bytes [offset, offset + bytes) of an allocation of another process on a GPU.
struct CudaRegion {
  std::string handle;      // cudaIpcMemHandle_t
  std::size_t device = 0;  // index among the server's
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

// Thread-safe. Lives until the last work that uses it has ended.
class Region {
 public:
  // Errors are those of Regions.Register in regions.proto. The device outlives the region;
  // `share` is kept as long as the region lives.
  static absl::StatusOr<std::shared_ptr<const Region>> Open(const PosixRegion& region,
                                                            Device* device,
                                                            std::shared_ptr<void> share);
  static absl::StatusOr<std::shared_ptr<const Region>> Open(const CudaRegion& region,
                                                            Device* device,
                                                            std::shared_ptr<void> share);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  const std::string& name() const { return name_; }
  std::uint64_t offset() const { return offset_; }
  std::uint64_t size_bytes() const { return size_bytes_; }
  // Null: the bytes have to be copied.
  const SharedMapping* mapping() const { return mapping_.get(); }
  // The device that has the memory, where one has; else null.
  Device* device() const { return device_; }
  bool is_file() const { return file_ >= 0; }

  // INVALID_ARGUMENT, naming `field`: these bytes are not all in the region.
  absl::Status CheckRange(absl::string_view field, std::uint64_t offset, std::uint64_t bytes) const;
  // FAILED_PRECONDITION: the file no longer has all of the region. It may lose them at any
  // later moment, which Read() then finds.
  absl::Status CheckFile() const;
  // Returns whether these bytes are, in part, the same memory.
  bool Overlaps(std::uint64_t offset, std::uint64_t bytes, const Region& other,
                std::uint64_t other_offset, std::uint64_t other_bytes) const;

  // REQUIRES: is_file(), and CheckRange() was OK.
  // FAILED_PRECONDITION: as CheckFile(). RESOURCE_EXHAUSTED: the host has no memory for what
  // is written.
  absl::Status Read(std::uint64_t offset, void* to, std::uint64_t bytes) const;
  absl::Status Write(std::uint64_t offset, const void* from, std::uint64_t bytes) const;

 private:
  Region(std::string name, std::string memory, std::uint64_t offset, std::uint64_t size_bytes,
         std::shared_ptr<void> share);
  absl::Status TruncatedError(std::uint64_t file_bytes) const;

  const std::string name_;
  std::string memory_;  // what the offset counts in: equal for regions of one memory
  const std::uint64_t offset_;
  const std::uint64_t size_bytes_;
  const std::shared_ptr<void> share_;
  int file_ = -1;
  Device* device_ = nullptr;
  std::shared_ptr<const SharedMapping> mapping_;  // let go before share_
};

}  // namespace gemmd
