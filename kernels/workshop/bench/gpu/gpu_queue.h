// Sequences of launches on one CUDA stream, or on several in turns, timed by events around them.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/workshop/bench/gpu/management_library.h"
#include "kernels/workshop/bench/protocol.h"

namespace gemmd::bench {

// Queues the launch number `turn`, which says whose operands it takes.
using QueueOne = std::function<absl::Status(int turn, cudaStream_t stream)>;

// A sequence that may be recorded: kernels shorter than a launch costs the CPU are replayed as a
// graph of many launches, one behind the other as in a stream. Its launches take turns on `streams`
// streams.
class Sequence {
 public:
  explicit Sequence(QueueOne queue, int streams = 1)
      : queue_(std::move(queue)), streams_(streams) {}
  ~Sequence();
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

 private:
  friend class GpuQueue;

  const QueueOne queue_;
  const int streams_;
  double each_ms_ = 0;  // as last timed one by one
  bool was_recorded_ = false;
  cudaGraphExec_t recorded_ = nullptr;
};

// Not thread-safe.
class GpuQueue {
 public:
  // `management` may tell nothing; it outlives the queue.
  static absl::StatusOr<std::unique_ptr<GpuQueue>> Make(const ManagementLibrary* management);
  ~GpuQueue();
  GpuQueue(const GpuQueue&) = delete;
  GpuQueue& operator=(const GpuQueue&) = delete;

  cudaStream_t stream() const { return stream_; }

  // See Stage::Time() and TimeOneByOne().
  absl::StatusOr<double> Time(Sequence* sequence, int launches);
  absl::StatusOr<double> TimeOneByOne(Sequence* sequence, int launches);

  absl::Status Wait();
  std::optional<Telemetry> last_telemetry() const { return telemetry_; }

 private:
  explicit GpuQueue(const ManagementLibrary* management) : management_(*management) {}

  // Launches from `turn` on; what is queued on stream() next comes after them all.
  absl::Status Queue(const Sequence& sequence, int turn, int launches);
  absl::StatusOr<cudaStream_t> SideStream(std::size_t index);
  absl::Status Follow(cudaStream_t behind, cudaStream_t ahead);
  absl::Status Record(Sequence* sequence);
  absl::StatusOr<double> TimeBetweenEvents(const std::function<absl::Status()>& queue);
  absl::Status WatchUntilStop();

  const ManagementLibrary& management_;
  cudaStream_t stream_ = nullptr;
  std::vector<cudaStream_t> side_streams_;
  cudaEvent_t order_ = nullptr;
  cudaEvent_t start_ = nullptr;
  cudaEvent_t stop_ = nullptr;
  int turn_ = 0;
  std::optional<Telemetry> telemetry_;
};

}  // namespace gemmd::bench
