#include "tests/server/device/gpu/served_gpu.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "server/device/cuda/warm_up.h"

namespace gemmd::testing {

void Require(const absl::Status& status, const std::string& what) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s: %s\n", what.c_str(), status.ToString().c_str());
  std::exit(1);
}

int CountGpus() { return static_cast<int>(Require(OpenCudaDevices(), "devices").size()); }

ServedGpu ServeGpu(int ordinal, const Clock* clock,
                   std::function<void(const absl::Status&)> on_lost) {
  ServedGpu gpu;
  gpu.backend = Require(OpenCudaDevices(), "devices").at(static_cast<std::size_t>(ordinal));
  CudaDevice::Options options;
  options.memory_bytes = gpu.backend->properties().free_memory_bytes / 2;
  options.pinned_bytes = std::uint64_t{2} << 30;
  options.unpinned_bytes = std::uint64_t{1} << 30;
  options.staging_threads = 4;
  options.stall_timeout_ms = 5000;
  options.on_lost = std::move(on_lost);
  gpu.device = Require(CudaDevice::Create(gpu.backend, options, clock), "device");
  Require(WarmUp(BuiltinRegistry(), gpu.device.get()), "warm-up");
  SchedulerOptions scheduling;
  scheduling.bounds.jobs = 1 << 16;
  gpu.alarm = std::make_unique<ThreadAlarm>();
  gpu.scheduler = std::make_unique<Scheduler>(gpu.device.get(), clock, gpu.alarm.get(), scheduling);
  return gpu;
}

DeviceWork MakeWork(ServedGpu* gpu, const Problem& problem, Operands* operands) {
  DeviceWork work;
  work.problem = problem;
  work.plan = Require(
      Select(BuiltinRegistry(), gpu->device->Landed(problem), gpu->device->traits()), "plan");
  work.buffers[WorkPlane::kA] = operands->a.data();
  work.buffers[WorkPlane::kB] = operands->b.data();
  if (!operands->c.empty()) work.buffers[WorkPlane::kC] = operands->c.data();
  if (!operands->bias.empty()) work.buffers[WorkPlane::kBias] = operands->bias.data();
  if (!operands->a_scales.empty()) work.buffers[WorkPlane::kAScales] = operands->a_scales.data();
  if (!operands->b_scales.empty()) work.buffers[WorkPlane::kBScales] = operands->b_scales.data();
  work.buffers.d = Require(gpu->device->AllocateResult(problem.d), "result");
  return work;
}

void CopyOut(const HostBuffer& d, PlaneBytes* plane) {
  std::uint64_t offset = 0;
  for (const HostPiece& piece : d) {
    std::memcpy(plane->data() + offset, piece.data, piece.size_bytes);
    offset += piece.size_bytes;
  }
}

Device::Callback Ends::Expect() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++outstanding_;
  }
  return [this](DeviceResult result) {
    const std::lock_guard<std::mutex> lock(mutex_);
    --outstanding_;
    status_.Update(result.status);
    last_spans_ = std::move(result.spans);
    changed_.notify_all();
  };
}

void Ends::WaitFor(int left) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return outstanding_ <= left; });
}

absl::Status Ends::status() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return status_;
}

std::vector<StageSpan> Ends::last_spans() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return last_spans_;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace gemmd::testing
