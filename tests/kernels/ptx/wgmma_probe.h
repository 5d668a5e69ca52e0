// A kernel of two chained wgmma on arbitrary bytes of shared memory, for comparing the
// emulator with a GPU bit by bit: descriptors say which bytes are elements.
#pragma once

#include "kernels/ptx/barriers.h"
#include "kernels/ptx/convert.h"
#include "kernels/ptx/fences.h"
#include "kernels/ptx/global_memory.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/shared_memory.h"
#include "kernels/ptx/wgmma.h"

namespace gemmd::ptx {

enum class WgmmaForm : int { kF16ToF32, kBf16ToF32 };
enum class WgmmaA : int { kKMajor, kMnMajor, kRegisters };

inline constexpr std::uint32_t kWgmmaProbeShared = 96 * 1024;

inline namespace GEMMD_BACKEND {

struct WgmmaOperandSpec {
  std::uint32_t start;  // bytes from the start of shared memory
  std::uint32_t leading;
  std::uint32_t stride;
  Swizzle swizzle;
};

struct WgmmaProbeParams {
  const Vector4* shared;           // kWgmmaProbeShared bytes
  const std::uint32_t* fragments;  // two times four words a thread
  std::uint32_t* out;              // N / 2 words a thread
  WgmmaOperandSpec a;
  WgmmaOperandSpec b;
};

GEMMD_DEVICE std::uint64_t WgmmaProbeDescriptor(const WgmmaOperandSpec& spec) {
  return MakeWgmmaDescriptor(SharedBase() + spec.start, spec.leading, spec.stride, spec.swizzle);
}

template <WgmmaForm kForm, int kColumns, WgmmaA kA, Major kBMajor>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(128, 1)
    WgmmaProbe(const GEMMD_GRID_CONSTANT WgmmaProbeParams params) {
  constexpr auto kType = kForm == WgmmaForm::kBf16ToF32 ? WgmmaType::kBf16 : WgmmaType::kF16;
  constexpr Major kAMajor = kA == WgmmaA::kMnMajor ? Major::kMn : Major::kK;
  constexpr int kWords = kColumns / 2;
  const std::uint32_t thread = ThreadIndex();
  for (std::uint32_t i = thread; i < kWgmmaProbeShared / 16; i += 128) {
    StoreShared(SharedBase() + 16 * i, LoadGlobal(params.shared + i));
  }
  FenceProxyAsync();
  SyncThreads();
  std::uint32_t first[4];
  std::uint32_t second[4];
  for (std::uint32_t i = 0; i < 4; ++i) first[i] = LoadGlobal(params.fragments + thread * 8 + i);
  for (std::uint32_t i = 0; i < 4; ++i) {
    second[i] = LoadGlobal(params.fragments + thread * 8 + 4 + i);
  }
  const std::uint64_t a = WgmmaProbeDescriptor(params.a);
  const std::uint64_t b = WgmmaProbeDescriptor(params.b);
  float sum[kWords];
  for (float& each : sum) each = FloatOfBits(0x7f800000);  // must be ignored at first
  WgmmaFence();
  if constexpr (kA == WgmmaA::kRegisters) {
    WgmmaRegisters<kType, kColumns, kBMajor>(sum, first, b, false);
    WgmmaRegisters<kType, kColumns, kBMajor>(sum, second, b, true);
  } else {
    Wgmma<kType, kColumns, kAMajor, kBMajor>(sum, a, b, false);
    Wgmma<kType, kColumns, kAMajor, kBMajor>(sum, a, b, true);
  }
  WgmmaCommit();
  WgmmaWait<0>();
  for (int i = 0; i < kWords; ++i) {
    StoreGlobal(params.out + thread * kWords + i, BitsOfFloat(sum[i]));
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::ptx
