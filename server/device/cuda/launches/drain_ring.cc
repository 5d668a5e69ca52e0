#include "server/device/cuda/launches/drain_ring.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "server/device/cuda/backend/commands.h"
#include "server/device/cuda/planes/plane.h"

namespace gemmd {

absl::StatusOr<std::unique_ptr<DrainRing>> DrainRing::Create(CudaBackend* backend, HostBuffer slabs,
                                                             ThreadExecutor* executor,
                                                             WaitUntilDone wait_until_done) {
  absl::StatusOr<std::vector<CudaEvent>> events = CreateEvents(backend, slabs.size());
  if (!events.ok()) return events.status();
  return std::unique_ptr<DrainRing>(new DrainRing(backend, std::move(slabs), *std::move(events),
                                                  executor, std::move(wait_until_done)));
}

DrainRing::DrainRing(CudaBackend* backend, HostBuffer slabs, std::vector<CudaEvent> events,
                     ThreadExecutor* executor, WaitUntilDone wait_until_done)
    : backend_(backend),
      slabs_(std::move(slabs)),
      events_(std::move(events)),
      executor_(executor),
      wait_until_done_(std::move(wait_until_done)),
      free_slabs_(slabs_.size()) {}

absl::Status DrainRing::Copy(const CudaRect& rect, CudaStream stream) {
  const std::vector<PlaneRect> parts =
      CutForSlabs({0, static_cast<std::int64_t>(rect.lines), 0, rect.width}, rect.width,
                  slabs_.front().size_bytes);
  // Half of the slabs are emptied while the others are filled.
  const auto batch = std::min(std::max<std::size_t>(1, slabs_.size() / 2),
                              static_cast<std::size_t>(executor_->workers()));
  for (std::size_t begin = 0; begin < parts.size(); begin += batch) {
    const std::size_t count = std::min(parts.size() - begin, batch);
    TakeSlabs(count);
    absl::Status status;
    for (std::size_t i = 0; i < count && status.ok(); ++i) {
      char* const slab = slabs_[SlabOf(next_ + i)].data;
      status =
          backend_->Copy(CopyDirection::kFromDevice,
                         CopyToSlab(parts[begin + i], rect.from, rect.from_pitch, slab), stream);
    }
    // It stands for the whole batch.
    if (status.ok()) status = backend_->Record(events_[next_], stream);
    if (!status.ok()) {
      // Copies that were issued write these slabs before any later one, and nobody reads them till
      // then.
      GiveBackSlabs(count);
      return status;
    }
    const auto first = parts.begin() + static_cast<std::ptrdiff_t>(begin);
    std::vector<PlaneRect> filled(first, first + static_cast<std::ptrdiff_t>(count));
    thread_.Post(
        0, [this, slab = next_, filled = std::move(filled), rect] { Empty(slab, filled, rect); });
    next_ = SlabOf(next_ + count);
  }
  return absl::OkStatus();
}

void DrainRing::Empty(std::size_t first_slab, const std::vector<PlaneRect>& parts,
                      const CudaRect& rect) {
  // Without a device nobody reads the result.
  if (wait_until_done_(events_[first_slab]).ok()) {
    executor_->Run(static_cast<std::int64_t>(parts.size()), [&](int, std::int64_t i) {
      const auto index = static_cast<std::size_t>(i);
      ScatterPart(parts[index], slabs_[SlabOf(first_slab + index)].data, rect.to, rect.to_pitch);
    });
  }
  GiveBackSlabs(parts.size());
}

void DrainRing::TakeSlabs(std::size_t count) {
  const MutexLock lock(mutex_);
  while (free_slabs_ < count) changed_.wait(mutex_);
  free_slabs_ -= count;
}

void DrainRing::GiveBackSlabs(std::size_t count) {
  {
    const MutexLock lock(mutex_);
    free_slabs_ += count;
  }
  changed_.notify_all();
}

void DrainRing::Then(Task task) {
  {
    const MutexLock lock(mutex_);
    ++waiting_tasks_;
  }
  thread_.Post(0, [this, task = std::move(task)]() mutable {
    std::move(task)();
    {
      const MutexLock lock(mutex_);
      --waiting_tasks_;
    }
    changed_.notify_all();
  });
}

bool DrainRing::AwaitOne() {
  const MutexLock lock(mutex_);
  const std::size_t waiting = waiting_tasks_;
  if (waiting == 0) return false;
  while (waiting_tasks_ >= waiting) changed_.wait(mutex_);
  return true;
}

}  // namespace gemmd
