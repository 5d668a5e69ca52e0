// Brings results from the device to ordinary host memory through a ring of pinned slabs: copy
// engines fill some while the host empties others.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/sync/mutex.h"
#include "server/device/cuda/backend/backend.h"
#include "server/device/cuda/planes/plane.h"
#include "server/device/host_buffer.h"
#include "server/device/keyed_pool.h"
#include "server/device/thread_executor.h"

namespace gemmd {

// Copy() and AwaitOne() are called by one thread.
class DrainRing {
 public:
  // Waits until the event is done; the device decides how long that may take.
  using WaitUntilDone = std::function<absl::Status(CudaEvent)>;
  using Task = absl::AnyInvocable<void() &&>;

  // All outlive the ring.
  static absl::StatusOr<std::unique_ptr<DrainRing>> Create(CudaBackend* backend, HostBuffer slabs,
                                                           ThreadExecutor* executor,
                                                           WaitUntilDone wait_until_done);
  // Empties what is under way, and carries out what waits for it.
  ~DrainRing() = default;
  DrainRing(const DrainRing&) = delete;
  DrainRing& operator=(const DrainRing&) = delete;

  // Issues copies of the rectangle from the device's memory to the host's; waits while no slab is
  // free. REQUIRES: always the same stream.
  absl::Status Copy(const CudaRect& rect, CudaStream stream);

  // Has the ring's thread carry out the task when all bytes that Copy() was called for have
  // arrived, or cannot any more. Tasks keep their order.
  void Then(Task task);
  // Waits until one more of these tasks has been carried out. False: none waits.
  bool AwaitOne();

 private:
  // One event a slab.
  DrainRing(CudaBackend* backend, HostBuffer slabs, std::vector<CudaEvent> events,
            ThreadExecutor* executor, WaitUntilDone wait_until_done);

  // Takes the next slabs, when they are free.
  void TakeSlabs(std::size_t count);
  void GiveBackSlabs(std::size_t count);
  // Brings parts of the rectangle to the host; on the ring's thread.
  void Empty(std::size_t first_slab, const std::vector<PlaneRect>& parts, const CudaRect& rect);
  std::size_t SlabOf(std::size_t i) const { return i % slabs_.size(); }

  CudaBackend* const backend_;
  const HostBuffer slabs_;
  const std::vector<CudaEvent> events_;
  ThreadExecutor* const executor_;
  const WaitUntilDone wait_until_done_;
  std::size_t next_ = 0;  // slab to fill, of the thread that copies

  Mutex mutex_;
  CondVar changed_;
  std::size_t free_slabs_ ABSL_GUARDED_BY(mutex_);
  std::size_t waiting_tasks_ ABSL_GUARDED_BY(mutex_) = 0;

  KeyedPool thread_{1};  // last: what it carries out uses all else
};

}  // namespace gemmd
