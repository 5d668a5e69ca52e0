// Brings operands from ordinary host memory to the device through a ring of pinned slabs:
// the host gathers into one slab while the copy engine reads others.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/device/cuda/backend/backend.h"
#include "server/device/cuda/planes/plane.h"
#include "server/device/host_buffer.h"
#include "server/device/thread_executor.h"

namespace gemmd {

// Used by one thread.
class StagingRing {
 public:
  // Waits until the event is done; the device decides how long that may take.
  using WaitUntilDone = std::function<absl::Status(CudaEvent)>;

  // All outlive the ring.
  static absl::StatusOr<std::unique_ptr<StagingRing>> Create(CudaBackend* backend, HostBuffer slabs,
                                                             ThreadExecutor* executor,
                                                             WaitUntilDone wait_until_done);

  // Issues copies of the rectangle from host memory with `host_pitch` bytes from line to
  // line to the same place of a plane on the device. `host` and `device` are the planes'
  // starts. The host memory has been read when this returns. `line_bytes`: of the plane's lines;
  // what lies behind them on the device may be zeroed.
  absl::Status Copy(const PlaneRect& rect, const void* host, std::uint64_t host_pitch, void* device,
                    std::uint64_t device_pitch, std::uint64_t line_bytes, CudaStream stream);

 private:
  // One event a slab.
  StagingRing(CudaBackend* backend, HostBuffer slabs, std::vector<CudaEvent> events,
              ThreadExecutor* executor, WaitUntilDone wait_until_done);

  absl::Status WaitForSlab(std::size_t slab);
  // The i-th slab from the next one on.
  std::size_t SlabOf(std::size_t i) const { return (next_ + i) % slabs_.size(); }

  CudaBackend* const backend_;
  const HostBuffer slabs_;
  const std::vector<CudaEvent> events_;
  std::vector<bool> is_recorded_;  // by slab: whether its event stands for a copy
  ThreadExecutor* const executor_;
  const WaitUntilDone wait_until_done_;
  std::size_t next_ = 0;
};

// A copy of a rectangle whose lines lie `from_pitch` and `to_pitch` apart, as one span of
// bytes where they are lines of equal pitch with nothing to leave out between them.
CudaRect CopyOfRect(const PlaneRect& rect, const void* from_plane, std::uint64_t from_pitch,
                    void* to_plane, std::uint64_t to_pitch);

}  // namespace gemmd
