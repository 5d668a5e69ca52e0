#include "kernels/workshop/bench/gpu/gpu_peaks.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "kernels/workshop/bench/bench_work.h"
#include "kernels/workshop/bench/gpu/gpu_memory.h"

namespace gemmd::bench {
namespace {

constexpr std::uint64_t kReadBytes = std::uint64_t{4} << 30;

LaunchTarget On(cudaStream_t stream) {
  LaunchTarget target;
  target.stream = stream;
  return target;
}

absl::StatusOr<double> ReadGbps(int multiprocessors, GpuQueue* queue) {
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  absl::Status status = ToStatus(cudaMemGetInfo(&free_bytes, &total), "cudaMemGetInfo");
  if (!status.ok()) return status;
  const std::uint64_t bytes = std::min<std::uint64_t>(kReadBytes, free_bytes / 4) / 256 * 256;
  const absl::StatusOr<DeviceMemory> data = Allocate(bytes);
  const absl::StatusOr<DeviceMemory> sink = Allocate(256);
  if (!data.ok()) return data.status();
  if (!sink.ok()) return sink.status();
  status = ToStatus(cudaMemsetAsync(data->get(), 1, bytes, queue->stream()), "cudaMemsetAsync");
  if (!status.ok()) return status;
  double best = 0;
  for (const int blocks : {4, 8, 16, 32}) {
    ReadWork work;
    work.data = data->get();
    work.units = bytes / 16;
    work.blocks = static_cast<std::uint32_t>(blocks * multiprocessors);
    work.sink = static_cast<std::uint32_t*>(sink->get());
    Sequence sequence(
        [&work](int, cudaStream_t stream) { return CudaBenchWork().read(work, On(stream)); });
    for (int repeat = 0; repeat < 6; ++repeat) {
      const absl::StatusOr<double> ms = queue->TimeOneByOne(&sequence, 1);
      if (!ms.ok()) return ms.status();
      best = std::max(best, static_cast<double>(bytes) / *ms * 1e-6);
    }
  }
  return best;
}

struct Both {
  double sustained = 0;
  double burst = 0;
};

// TFLOP/s of launches of about a millisecond each.
absl::StatusOr<Both> TensorTflops(absl::Status (*launch)(const TensorWork&, const LaunchTarget&),
                                  TensorWork work, double flops_per_step, double expected_tflops,
                                  const Protocol& protocol, GpuQueue* queue) {
  work.steps = static_cast<std::uint32_t>(expected_tflops * 1e9 / (work.blocks * flops_per_step));
  const double flops = flops_per_step * work.blocks * work.steps;
  Sequence sequence([&](int, cudaStream_t stream) { return launch(work, On(stream)); });
  const auto milliseconds = [&](double wanted) { return std::max(2, static_cast<int>(wanted)); };
  std::vector<double> sustained;
  std::vector<double> burst;
  for (int repeat = 0; repeat < 3; ++repeat) {
    const int slice = milliseconds(protocol.sustained_ms);
    absl::StatusOr<double> ms = queue->TimeOneByOne(&sequence, slice);
    if (ms.ok()) ms = queue->TimeOneByOne(&sequence, slice);
    if (!ms.ok()) return ms.status();
    sustained.push_back(flops * slice / *ms * 1e-9);
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(protocol.idle_ms));
    const int launches = milliseconds(protocol.burst_ms);
    ms = queue->TimeOneByOne(&sequence, 1);
    if (ms.ok()) ms = queue->TimeOneByOne(&sequence, launches);
    if (!ms.ok()) return ms.status();
    burst.push_back(flops * launches / *ms * 1e-9);
  }
  return Both{Median(sustained), Median(burst)};
}

}  // namespace

absl::StatusOr<Peaks> MeasureGpuPeaks(const DeviceTraits& traits, bool is_bf16,
                                      const Protocol& protocol, GpuQueue* queue) {
  const BenchWork kernels = CudaBenchWork();
  Peaks peaks;
  const absl::StatusOr<double> gbps = ReadGbps(traits.compute_units, queue);
  if (!gbps.ok()) return gbps.status();
  peaks.read_gbps = *gbps;
  const absl::StatusOr<DeviceMemory> data = Allocate(kTensorWorkBytes);
  const absl::StatusOr<DeviceMemory> sink = Allocate(256);
  if (!data.ok()) return data.status();
  if (!sink.ok()) return sink.status();
  FillWork fill;
  fill.data = data->get();
  fill.units = kTensorWorkBytes / 16;
  fill.seed = 3;
  fill.type = is_bf16 ? DataType::kBf16 : DataType::kF16;
  if (const absl::Status status = kernels.fill(fill, On(queue->stream())); !status.ok()) {
    return status;
  }
  TensorWork work;
  work.data = data->get();
  work.sink = static_cast<std::uint32_t*>(sink->get());
  work.is_bf16 = is_bf16;
  const double expected = traits.half_gflops * 1e-3;
  const auto multiprocessors = static_cast<std::uint32_t>(traits.compute_units);
  work.blocks = 2 * multiprocessors;
  const absl::StatusOr<Both> mma =
      TensorTflops(kernels.mma, work, kMmaFlopsPerStep, expected / 2, protocol, queue);
  if (!mma.ok()) return mma.status();
  peaks.mma_sustained = mma->sustained;
  peaks.mma_burst = mma->burst;
  if (traits.compute_capability != 90) return peaks;
  work.blocks = multiprocessors;
  const absl::StatusOr<Both> wgmma =
      TensorTflops(kernels.wgmma, work, kWgmmaFlopsPerStep, expected, protocol, queue);
  if (!wgmma.ok()) return wgmma.status();
  // A build for sm_90 alone has no such instruction, and its kernel returns at once.
  if (wgmma->burst > 4 * expected) return peaks;
  peaks.wgmma_sustained = wgmma->sustained;
  peaks.wgmma_burst = wgmma->burst;
  return peaks;
}

}  // namespace gemmd::bench
