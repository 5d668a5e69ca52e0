// Kernels that do nothing but what a roofline is made of: read memory, multiply fragments.
#pragma once

#include "kernels/ptx/barriers.h"
#include "kernels/ptx/convert.h"
#include "kernels/ptx/fences.h"
#include "kernels/ptx/global_memory.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/mma_sync.h"
#include "kernels/ptx/shared_memory.h"
#include "kernels/ptx/wgmma.h"
#include "kernels/workshop/bench/device_params.h"

namespace gemmd::bench {

inline constexpr std::uint32_t kReadThreads = 512;
inline constexpr std::uint32_t kTensorThreads = 256;
// No sum of random numbers has these bits: the compiler cannot know.
inline constexpr std::uint32_t kNever = 0x7fc12345;

inline namespace GEMMD_BACKEND {

GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(kReadThreads, 1)
    ReadMemory(const GEMMD_GRID_CONSTANT ReadWork work) {
  const auto* in = static_cast<const ptx::Vector4*>(work.data);
  const std::uint64_t step = std::uint64_t{ptx::GridSizeX()} * kReadThreads;
  std::uint32_t mixed = 0;
  for (std::uint64_t i = std::uint64_t{ptx::BlockIndexX()} * kReadThreads + ptx::ThreadIndex();
       i + 3 * step < work.units; i += 4 * step) {
    ptx::Vector4 unit[4];
    GEMMD_UNROLL
    for (int j = 0; j < 4; ++j) unit[j] = ptx::LoadGlobal(in + i + j * step);
    GEMMD_UNROLL
    for (int j = 0; j < 4; ++j) mixed ^= unit[j].x ^ unit[j].y ^ unit[j].z ^ unit[j].w;
  }
  if (mixed == kNever) ptx::StoreGlobal(work.sink, mixed);
}

// Each warp has eight independent sums of m16n8k16.
template <bool kIsBf16>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(kTensorThreads, 2)
    MmaPeak(const GEMMD_GRID_CONSTANT TensorWork work) {
  constexpr int kSums = 8;
  const auto* in = static_cast<const std::uint32_t*>(work.data) + ptx::ThreadIndex() * 6;
  std::uint32_t a[4];
  std::uint32_t b[2];
  for (int i = 0; i < 4; ++i) a[i] = ptx::LoadGlobal(in + i);
  for (int i = 0; i < 2; ++i) b[i] = ptx::LoadGlobal(in + 4 + i);
  float sum[kSums][4] = {};
  for (std::uint32_t step = 0; step < work.steps; ++step) {
    GEMMD_UNROLL
    for (int i = 0; i < kSums; ++i) {
      if constexpr (kIsBf16) {
        ptx::MmaBf16(sum[i], a, b);
      } else {
        ptx::MmaF16(sum[i], a, b);
      }
    }
  }
  std::uint32_t mixed = 0;
  for (int i = 0; i < kSums; ++i) mixed ^= ptx::BitsOfFloat(sum[i][0]);
  if (mixed == kNever) ptx::StoreGlobal(work.sink, mixed);
}

// Two warpgroups, each with a sum of m64n256: A of 64x64 for each, B of 256x64 for both, in
// shared memory swizzled by 128 bytes, which is how the quickest kernels read them.
template <ptx::WgmmaType kType>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(kTensorThreads, 1)
    WgmmaPeak(const GEMMD_GRID_CONSTANT TensorWork work) {
  if constexpr (ptx::kHasWarpgroupMma) {
    const std::uint32_t thread = ptx::ThreadIndex();
    const auto* in = static_cast<const ptx::Vector4*>(work.data);
    const ptx::SharedAddress base = ptx::SharedBase();
    for (std::uint32_t i = thread; i < kTensorWorkBytes / 16; i += kTensorThreads) {
      ptx::StoreShared(base + 16 * i, ptx::LoadGlobal(in + i));
    }
    ptx::FenceProxyAsync();
    ptx::SyncThreads();
    const ptx::SharedAddress a = base + thread / 128 * 8192;
    const ptx::SharedAddress b = base + 2 * 8192;
    float sum[128];
    for (float& each : sum) each = 0;
    // Unrolled, or with products in flight over its end, ptxas copies sums and runs each product
    // alone (C7511, C7514). While one warpgroup waits, the other's four products fill the tensor
    // cores.
    GEMMD_NO_UNROLL
    for (std::uint32_t step = 0; step < work.steps; ++step) {
      ptx::WgmmaFence();
      GEMMD_UNROLL
      for (std::uint32_t k = 0; k < 4; ++k) {
        ptx::Wgmma<kType, 256>(sum, ptx::MakeWgmmaDescriptor128B(a + 32 * k),
                               ptx::MakeWgmmaDescriptor128B(b + 32 * k), true);
      }
      ptx::WgmmaCommit();
      ptx::WgmmaWait<0>();
    }
    std::uint32_t mixed = 0;
    for (const float each : sum) mixed ^= ptx::BitsOfFloat(each);
    if (mixed == kNever) ptx::StoreGlobal(work.sink, mixed);
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::bench
