#include "kernels/workshop/bench/gpu/gpu_queue.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>

#include "kernels/workshop/bench/gpu/gpu_memory.h"

namespace gemmd::bench {
namespace {

using Clock = std::chrono::steady_clock;

// Launches of a recorded sequence: a multiple of every number of operand sets (gpu_operands.h).
constexpr int kRecordedLaunches = 256;
constexpr double kRecordBelowMs = 0.025;
constexpr std::chrono::milliseconds kTelemetryPeriod(20);
constexpr std::chrono::microseconds kPoll(100);

}  // namespace

Sequence::~Sequence() {
  if (recorded_ != nullptr) cudaGraphExecDestroy(recorded_);
}

absl::StatusOr<std::unique_ptr<GpuQueue>> GpuQueue::Make(const ManagementLibrary* management) {
  std::unique_ptr<GpuQueue> queue(new GpuQueue(management));
  absl::Status status = ToStatus(cudaStreamCreateWithFlags(&queue->stream_, cudaStreamNonBlocking),
                                 "cudaStreamCreate");
  if (status.ok()) status = ToStatus(cudaEventCreate(&queue->start_), "cudaEventCreate");
  if (status.ok()) status = ToStatus(cudaEventCreate(&queue->stop_), "cudaEventCreate");
  if (status.ok()) {
    status = ToStatus(cudaEventCreateWithFlags(&queue->order_, cudaEventDisableTiming),
                      "cudaEventCreate");
  }
  if (!status.ok()) return status;
  return queue;
}

GpuQueue::~GpuQueue() {
  if (order_ != nullptr) cudaEventDestroy(order_);
  for (const cudaStream_t stream : side_streams_) cudaStreamDestroy(stream);
  if (stop_ != nullptr) cudaEventDestroy(stop_);
  if (start_ != nullptr) cudaEventDestroy(start_);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

absl::Status GpuQueue::Wait() {
  return ToStatus(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

// Clocks and power are read while the GPU works, and seldom, because reading takes the CPU's time.
absl::Status GpuQueue::WatchUntilStop() {
  Clock::time_point last = Clock::now();
  for (;;) {
    const cudaError_t error = cudaEventQuery(stop_);
    if (error == cudaSuccess) return absl::OkStatus();
    if (error != cudaErrorNotReady) return ToStatus(error, "cudaEventQuery");
    if (Clock::now() - last < kTelemetryPeriod) {
      std::this_thread::sleep_for(kPoll);
      continue;
    }
    const std::optional<Telemetry> read = management_.Read();
    if (read.has_value() && cudaEventQuery(stop_) == cudaErrorNotReady) telemetry_ = read;
    last = Clock::now();
  }
}

absl::StatusOr<double> GpuQueue::TimeBetweenEvents(const std::function<absl::Status()>& queue) {
  telemetry_.reset();
  const Clock::time_point began = Clock::now();
  absl::Status status = ToStatus(cudaEventRecord(start_, stream_), "cudaEventRecord");
  if (status.ok()) status = queue();
  if (status.ok()) status = ToStatus(cudaEventRecord(stop_, stream_), "cudaEventRecord");
  if (!status.ok()) {
    static_cast<void>(Wait());
    return status;
  }
  // Queueing many launches takes nearly as long as they run.
  if (Clock::now() - began > kTelemetryPeriod && cudaEventQuery(stop_) == cudaErrorNotReady) {
    telemetry_ = management_.Read();
  }
  status = WatchUntilStop();
  float milliseconds = 0;
  if (status.ok()) {
    status = ToStatus(cudaEventElapsedTime(&milliseconds, start_, stop_), "cudaEventElapsedTime");
  }
  if (status.ok()) status = ToStatus(cudaGetLastError(), "launch");
  if (!status.ok()) return status;
  return milliseconds;
}

absl::StatusOr<cudaStream_t> GpuQueue::SideStream(std::size_t index) {
  while (side_streams_.size() <= index) {
    cudaStream_t stream = nullptr;
    const absl::Status status =
        ToStatus(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
    if (!status.ok()) return status;
    side_streams_.push_back(stream);
  }
  return side_streams_[index];
}

absl::Status GpuQueue::Follow(cudaStream_t behind, cudaStream_t ahead) {
  const absl::Status status = ToStatus(cudaEventRecord(order_, ahead), "cudaEventRecord");
  return status.ok() ? ToStatus(cudaStreamWaitEvent(behind, order_), "cudaStreamWaitEvent")
                     : status;
}

absl::Status GpuQueue::Queue(const Sequence& sequence, int turn, int launches) {
  std::vector<cudaStream_t> streams = {stream_};
  while (streams.size() < static_cast<std::size_t>(sequence.streams_)) {
    const absl::StatusOr<cudaStream_t> side = SideStream(streams.size() - 1);
    if (!side.ok()) return side.status();
    if (absl::Status status = Follow(*side, stream_); !status.ok()) return status;
    streams.push_back(*side);
  }
  absl::Status status;
  for (int i = 0; i < launches && status.ok(); ++i) {
    status =
        sequence.queue_(turn + i, streams[static_cast<std::size_t>(turn + i) % streams.size()]);
  }
  for (std::size_t i = 1; i < streams.size(); ++i) {
    // Also where a launch failed: a recording must come together again.
    const absl::Status joined = Follow(stream_, streams[i]);
    if (status.ok()) status = joined;
  }
  return status;
}

absl::StatusOr<double> GpuQueue::TimeOneByOne(Sequence* sequence, int launches) {
  absl::StatusOr<double> ms = TimeBetweenEvents([&] { return Queue(*sequence, turn_, launches); });
  turn_ += launches;
  if (ms.ok()) sequence->each_ms_ = *ms / launches;
  return ms;
}

absl::Status GpuQueue::Record(Sequence* sequence) {
  sequence->was_recorded_ = true;
  absl::Status status = ToStatus(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
                                 "cudaStreamBeginCapture");
  if (!status.ok()) return status;
  status = Queue(*sequence, 0, kRecordedLaunches);
  cudaGraph_t graph = nullptr;
  const absl::Status ended =
      ToStatus(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
  if (status.ok()) status = ended;
  if (status.ok()) {
    status = ToStatus(cudaGraphInstantiate(&sequence->recorded_, graph, 0), "cudaGraphInstantiate");
  }
  if (graph != nullptr) cudaGraphDestroy(graph);
  if (!status.ok()) sequence->recorded_ = nullptr;
  return status;
}

absl::StatusOr<double> GpuQueue::Time(Sequence* sequence, int launches) {
  const bool is_short = sequence->each_ms_ > 0 && sequence->each_ms_ < kRecordBelowMs;
  if (is_short && !sequence->was_recorded_ && launches >= 2 * kRecordedLaunches) {
    const absl::Status status = Record(sequence);
    if (!status.ok()) {
      std::fprintf(stderr,
                   "launches are queued one by one, so that the CPU may be what is timed: %s\n",
                   std::string(status.message()).c_str());
    }
  }
  if (sequence->recorded_ == nullptr || launches < kRecordedLaunches) {
    return TimeOneByOne(sequence, launches);
  }
  const int replays = launches / kRecordedLaunches;
  const absl::StatusOr<double> ms = TimeBetweenEvents([&] {
    absl::Status status;
    for (int i = 0; i < replays && status.ok(); ++i) {
      status = ToStatus(cudaGraphLaunch(sequence->recorded_, stream_), "cudaGraphLaunch");
    }
    return status;
  });
  if (!ms.ok()) return ms.status();
  return *ms * launches / (replays * kRecordedLaunches);
}

}  // namespace gemmd::bench
