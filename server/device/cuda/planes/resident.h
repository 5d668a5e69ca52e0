// Planes that stay in a GPU's memory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/sync/mutex.h"
#include "kernels/gemm.h"
#include "server/device/cuda/backend/backend.h"
#include "server/device/device.h"

namespace gemmd {

// Events that are used one after another: a backend never destroys one. Thread-safe.
class EventPool : public std::enable_shared_from_this<EventPool> {
 public:
  explicit EventPool(std::shared_ptr<CudaBackend> backend) : backend_(std::move(backend)) {}

  // The event is nobody else's until the last reference is gone. Streams that wait for its record
  // by then still do.
  absl::StatusOr<std::shared_ptr<CUevent_st>> Take();

 private:
  const std::shared_ptr<CudaBackend> backend_;
  AdaptiveMutex mutex_;
  std::vector<CudaEvent> spare_ ABSL_GUARDED_BY(mutex_);
};

// The bytes that a plane of that layout takes of the device's memory, where blocks are multiples of
// 256 bytes.
std::uint64_t ResidentBytes(const MatrixLayout& landed);

// A D lies as an operand of the same layout lands: in lines of their padded length.
MatrixLayout KeptLayout(const MatrixLayout& d);

// The plane of a packed B that it is, and the problem that says how to unpack it.
struct PackedAs {
  Problem problem;
  WeightPlane plane = WeightPlane::kCodes;
};

// One block.
class CudaResident final : public ResidentResult {
 public:
  struct Block {
    void* memory = nullptr;
    CudaStream stream = nullptr;  // in whose order it is given back, with its last use behind it
    // Before it the block may still be used by its last owner; null: by nobody.
    std::shared_ptr<CUevent_st> ready;
  };

  // `given`: the plane as the host has it. `packed`: nothing where it lies otherwise.
  CudaResident(std::shared_ptr<CudaBackend> backend, Block block, MemoryReservation reservation,
               const MatrixLayout& given, const MatrixLayout& landed,
               const std::optional<PackedAs>& packed = std::nullopt)
      : backend_(std::move(backend)),
        block_(std::move(block)),
        reservation_(std::move(reservation)),
        given_(given),
        landed_(landed),
        packed_(packed) {}
  // A failure to free means that the device is lost, which is reported elsewhere.
  ~CudaResident() override { backend_->Free(block_.memory, block_.stream).IgnoreError(); }
  CudaResident(const CudaResident&) = delete;
  CudaResident& operator=(const CudaResident&) = delete;

  const void* data() const override { return block_.memory; }
  void* memory() const override { return block_.memory; }
  const MatrixLayout& layout() const override { return landed_; }
  std::uint64_t size_bytes() const override { return ResidentBytes(landed_); }
  std::uint64_t given_bytes() const override { return given_.size_bytes(); }
  const MatrixLayout& given() const { return given_; }
  const std::optional<PackedAs>& packed() const { return packed_; }
  // Null: at once.
  CudaEvent ready() const { return block_.ready.get(); }

 private:
  const std::shared_ptr<CudaBackend> backend_;
  const Block block_;
  const MemoryReservation reservation_;
  const MatrixLayout given_;
  const MatrixLayout landed_;
  const std::optional<PackedAs> packed_;
};

// Returns the D that stays, of a work that has one, of which the work may write a part.
inline const CudaResident& KeptOf(const DeviceWork& work) {
  return static_cast<const CudaResident&>(work.resident.d->whole());
}

}  // namespace gemmd
