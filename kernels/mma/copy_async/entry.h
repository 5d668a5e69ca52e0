// A registry entry of this kernel, for the step that serves and for those of ladder A.
//
// Each takes f16 operands (accumulated in f32, or in f16 where the problem asks) or bf16
// ones (f32), row-major, not transposed, with 16-byte strides and no epilogue, and writes
// their own type. They run on CUDA devices from sm_80, where a block may have their shared memory,
// and on emulated devices.
//
// Arithmetic: mma.sync.m16n8k16 over K in order, whatever the step; the result is rounded
// once to the output type. A row's bits depend on N, K and types alone, and are the same
// for every step. Error, f32 accumulation: each instruction truncates 17 terms at 2^-25
// of the largest and its sum at 2^-24, so |D - exact| <= (K / 16 + 1) * 18 * 2^-24 *
// (|A| |B|) elementwise, plus half a unit in the last place of the output. With an f16
// accumulator each instruction also rounds to f16: (K / 16 + 1) * 2^-11 * (|A| |B|) more.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/mma/copy_async/shape.h"
#include "kernels/mma/half_gemm_entry.h"

namespace gemmd::copy_async {

// TFLOP/s at 8192 cubed: published for an A100, with f16 sums, whose mma.sync is as quick with f32
// sums; and measured on an H200 in a burst (workshop/ampere_mma/README.md).
struct Measured {
  double a100;
  double h200_f32_sums;
  double h200_f16_sums;
};

// DeviceTraits::half_gflops of the two, in TFLOP/s.
inline constexpr double kA100 = 234;
inline constexpr double kH200 = 803;

// The facts that a step states, as values.
struct StepTraits {
  mma::HalfGemmTraits half_gemm;
  std::uint32_t shared_kilobytes = 0;
};

template <class Step>
constexpr StepTraits Describe(const Measured& measured) {
  mma::HalfGemmTraits traits;
  traits.name = Step::kName;
  traits.idea = Step::kIdea;
  traits.tile_m = Step::kTileM;
  traits.tile_n = Step::kTileN;
  traits.tile_k = Step::kTileK;
  traits.stages = Step::kStages;
  traits.warps = BlockShape<Step>::kThreads / 32;
  traits.raster_group = Step::kRasterGroup;
  traits.blocks_per_multiprocessor = Step::kBlocksPerMultiprocessor;
  traits.speeds[0] = {80, measured.a100 / kA100, measured.a100 / kA100};
  traits.speeds[1] = {90, measured.h200_f32_sums / kH200, measured.h200_f16_sums / kH200};
  return {traits, BlockShape<Step>::kSharedBytes / 1024};
}

class Entry final : public mma::HalfGemmEntry {
 public:
  Entry(const StepTraits& step, mma::HalfGemmLaunch cuda, mma::HalfGemmLaunch emulated);

  std::string CapabilityRejection(int compute_capability) const override;

 private:
  const std::uint32_t shared_kilobytes_;
};

}  // namespace gemmd::copy_async
