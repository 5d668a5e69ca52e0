// A registry entry of this kernel, for the step that serves and for those of ladder B.
//
// Each takes f16 or bf16 operands, accumulated in f32, row-major, not transposed, with 16-byte
// strides and no epilogue, and writes their own type. They run on CUDA devices of compute
// capability 9.0 and 12.0, for which they are built, and on emulated devices, with at most
// the 99 KB of shared memory that a block of sm_120 may have.
//
// D may be a view: no kernel writes beyond its columns. (A TMA store does so, in units of 16
// bytes, so steps that store by TMA let threads store the tiles where N ends inside such a unit.)
//
// Arithmetic: mma.sync.m16n8k16 over K in order, as in ladder A: the same bits and the same
// error bound (mma/copy_async/entry.h).
#pragma once

#include <string>

#include "kernels/mma/half_gemm_entry.h"
#include "kernels/mma/tensor_copy/params.h"

namespace gemmd::tensor_copy {

// TFLOP/s with f16 operands and f32 sums: measured on an H200 at 8192 cubed in a burst, and
// published for an RTX 5060 Laptop at 4096 cubed (workshop/sm120_tma/README.md).
struct Measured {
  double h200;
  double rtx5060;
};

// DeviceTraits::half_gflops of the two, in TFLOP/s; of the second at 2.5 GHz.
inline constexpr double kH200 = 803;
inline constexpr double kRtx5060 = 25;

// The facts that a step states, as values.
struct StepTraits {
  mma::HalfGemmTraits half_gemm;
  bool loads_by_tma = false;
};

template <class Step>
constexpr StepTraits Describe(const Measured& measured) {
  mma::HalfGemmTraits traits;
  traits.name = Step::kName;
  traits.idea = Step::kIdea;
  traits.tile_m = kTileM;
  traits.tile_n = kTileN;
  traits.tile_k = Step::kTileK;
  traits.stages = Step::kStages;
  traits.warps = BlockLayout<Step>::kThreads / 32;
  traits.raster_group = Step::kRasterGroup;
  traits.blocks_per_multiprocessor = Step::kBlocksPerMultiprocessor;
  traits.speeds[0] = {90, measured.h200 / kH200, 0};
  traits.speeds[1] = {120, measured.rtx5060 / kRtx5060, 0};
  return {traits, Step::kTensorLoads};
}

class Entry final : public mma::HalfGemmEntry {
 public:
  Entry(const StepTraits& step, mma::HalfGemmLaunch cuda, mma::HalfGemmLaunch emulated);

  std::string CapabilityRejection(int compute_capability) const override;
  std::string Rejection(const Problem& problem) const override;

 private:
  const bool loads_by_tma_;
};

}  // namespace gemmd::tensor_copy
