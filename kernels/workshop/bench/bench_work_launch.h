// Host code of the benchmark's own kernels, compiled for the device and for the emulator.
#pragma once

#include "kernels/ptx/launch.h"
#include "kernels/workshop/bench/bench_work.h"
#include "kernels/workshop/bench/peak_kernels.h"
#include "kernels/workshop/bench/plane_kernels.h"

namespace gemmd::bench {
inline namespace GEMMD_BACKEND {

inline absl::Status LaunchFill(const FillWork& work, const LaunchTarget& target) {
  ptx::LaunchShape shape;
  shape.kernel = "bench/fill";
  shape.blocks_x = static_cast<std::uint32_t>(
      work.units / kPlaneThreads < 2048 ? work.units / kPlaneThreads + 1 : 2048);
  shape.threads = kPlaneThreads;
  return ptx::Launch(Fill, shape, work, {{work.data, work.units * 16, "data", false}}, target);
}

inline absl::Status LaunchCompare(const CompareWork& work, const LaunchTarget& target) {
  ptx::LaunchShape shape;
  shape.kernel = "bench/compare";
  shape.blocks_x = kCompareBlocks;
  shape.threads = kPlaneThreads;
  const std::uint64_t bytes =
      static_cast<std::uint64_t>((work.lines - 1) * work.pitch + work.columns) *
      static_cast<std::uint64_t>(SizeBits(work.type) / 8);
  return ptx::Launch(Compare, shape, work,
                     {{work.d, bytes, "d"},
                      {work.reference, bytes, "reference"},
                      {work.different, std::uint64_t{kCompareThreads} * 4, "different", false},
                      {work.largest, std::uint64_t{kCompareThreads} * 4, "largest", false}},
                     target);
}

inline absl::Status LaunchRead(const ReadWork& work, const LaunchTarget& target) {
  ptx::LaunchShape shape;
  shape.kernel = "bench/read";
  shape.blocks_x = work.blocks;
  shape.threads = kReadThreads;
  return ptx::Launch(ReadMemory, shape, work,
                     {{work.data, work.units * 16, "data"}, {work.sink, 4, "sink", false}}, target);
}

inline absl::Status LaunchTensor(void (*kernel)(TensorWork), const char* name,
                                 std::uint32_t shared_bytes, const TensorWork& work,
                                 const LaunchTarget& target) {
  ptx::LaunchShape shape;
  shape.kernel = name;
  shape.blocks_x = work.blocks;
  shape.threads = kTensorThreads;
  shape.shared_bytes = shared_bytes;
  return ptx::Launch(kernel, shape, work,
                     {{work.data, kTensorWorkBytes, "data"}, {work.sink, 4, "sink", false}},
                     target);
}

inline absl::Status LaunchMma(const TensorWork& work, const LaunchTarget& target) {
  return LaunchTensor(work.is_bf16 ? MmaPeak<true> : MmaPeak<false>, "bench/mma", 0, work, target);
}

inline absl::Status LaunchWgmma(const TensorWork& work, const LaunchTarget& target) {
  return LaunchTensor(
      work.is_bf16 ? WgmmaPeak<ptx::WgmmaType::kBf16> : WgmmaPeak<ptx::WgmmaType::kF16>,
      "bench/wgmma", kTensorWorkBytes, work, target);
}

inline BenchWork MakeBenchWork() {
  return {LaunchFill, LaunchCompare, LaunchRead, LaunchMma, LaunchWgmma};
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::bench
