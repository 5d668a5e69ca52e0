// wgmma: products of a warpgroup with operands in shared memory (sm_90a).
// PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions".
//
// A warpgroup is four warps, the first a multiple of 4; all 128 threads execute each of
// these. The order is: WgmmaFence() once the accumulators were last touched; products;
// WgmmaCommit(); WgmmaWait() before the accumulators or the operands' memory are touched.
// Operands that threads stored need FenceProxyAsync() and a barrier before; those that
// TMA wrote need the wait for their mbarrier alone.
//
// Accumulators, m64nNk16: register i of thread t is row t / 32 * 16 + t % 32 / 4 +
// i / 2 % 2 * 8, column i / 4 * 8 + t % 4 * 2 + i % 2. A in registers: those of mma_sync.h for
// the 16 rows of each warp.
#pragma once

#include "kernels/ptx/matrix_descriptor.h"
#include "kernels/ptx/platform.h"

#ifdef __CUDACC__
#include "kernels/ptx/wgmma_operands.h"
#else
#include "kernels/emulator/instructions/wgmma.h"
#endif

namespace gemmd::ptx {
inline namespace GEMMD_BACKEND {

// wgmma.fence.sync.aligned
GEMMD_DEVICE void WgmmaFence(GEMMD_ONLY_SITE) {
  GEMMD_ON_DEVICE(asm volatile("wgmma.fence.sync.aligned;" ::: "memory");)
  GEMMD_IN_EMULATOR(emulator::WgmmaFence(site);)
}

// wgmma.commit_group.sync.aligned: the products since the last one become a group.
GEMMD_DEVICE void WgmmaCommit(GEMMD_ONLY_SITE) {
  GEMMD_ON_DEVICE(asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");)
  GEMMD_IN_EMULATOR(emulator::WgmmaCommit(site);)
}

// wgmma.wait_group.sync.aligned: until at most kPending of the newest groups are pending.
template <int kPending>
GEMMD_DEVICE void WgmmaWait(GEMMD_ONLY_SITE) {
  GEMMD_ON_DEVICE(asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");)
  GEMMD_IN_EMULATOR(emulator::WgmmaWait(kPending, site);)
}

enum class WgmmaType : int { kF16, kBf16, kTf32 };

#ifdef __CUDACC__
// wgmma.mma_async.sync.aligned.m64nNk16.f32.TYPE.TYPE, scales 1. The predicate scale-d says
// whether D takes part in the sum; a transpose bit, that the operand is MN-major.
#define GEMMD_WGMMA_SHARED_ASM(columns, type, i0, i1, i2, i3, i4)                           \
  asm volatile(                                                                             \
      "{\n.reg .pred p;\nsetp.ne.b32 p, " i2                                                \
      ", 0;\n"                                                                              \
      "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." type "." type                 \
      " {" GEMMD_WGMMA_ALL_NAMES_##columns "}, " i0 ", " i1 ", p, 1, 1, " i3 ", " i4 ";\n}" \
      : GEMMD_WGMMA_ALL_FLOATS_##columns                                                    \
      : "l"(a_descriptor), "l"(b_descriptor), "r"(static_cast<std::uint32_t>(accumulate)),  \
        "n"(static_cast<int>(kAMajor)), "n"(static_cast<int>(kBMajor)))
// ...m64nNk8.f32.tf32.tf32, of K-major operands.
#define GEMMD_WGMMA_TF32_ASM(columns, i0, i1, i2)                                           \
  asm volatile(                                                                             \
      "{\n.reg .pred p;\nsetp.ne.b32 p, " i2                                                \
      ", 0;\n"                                                                              \
      "wgmma.mma_async.sync.aligned.m64n" #columns                                          \
      "k8.f32.tf32.tf32 {" GEMMD_WGMMA_ALL_NAMES_##columns "}, " i0 ", " i1 ", p, 1, 1;\n}" \
      : GEMMD_WGMMA_ALL_FLOATS_##columns                                                    \
      : "l"(a_descriptor), "l"(b_descriptor), "r"(static_cast<std::uint32_t>(accumulate)))
#define GEMMD_WGMMA_SHARED(columns, i0, i1, i2, i3, i4, i5, i6)    \
  if constexpr (kColumns == columns) {                             \
    if constexpr (kType == WgmmaType::kTf32) {                     \
      GEMMD_WGMMA_TF32_ASM(columns, i0, i1, i2);                   \
    } else if constexpr (kType == WgmmaType::kBf16) {              \
      GEMMD_WGMMA_SHARED_ASM(columns, "bf16", i0, i1, i2, i3, i4); \
    } else {                                                       \
      GEMMD_WGMMA_SHARED_ASM(columns, "f16", i0, i1, i2, i3, i4);  \
    }                                                              \
  }
#define GEMMD_WGMMA_REGISTERS_ASM(columns, type, i0, i1, i2, i3, i4, i5, i6)                   \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " i5                                          \
               ", 0;\n"                                                                        \
               "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." type "." type           \
               " {" GEMMD_WGMMA_ALL_NAMES_##columns "}, {" i0 ", " i1 ", " i2 ", " i3 "}, " i4 \
                                                    ", p, 1, 1, " i6 ";\n}"                    \
               : GEMMD_WGMMA_ALL_FLOATS_##columns                                              \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b_descriptor),                \
                 "r"(static_cast<std::uint32_t>(accumulate)), "n"(static_cast<int>(kBMajor)))
#define GEMMD_WGMMA_REGISTERS(columns, i0, i1, i2, i3, i4, i5, i6)            \
  if constexpr (kColumns == columns) {                                        \
    if constexpr (kType == WgmmaType::kBf16) {                                \
      GEMMD_WGMMA_REGISTERS_ASM(columns, "bf16", i0, i1, i2, i3, i4, i5, i6); \
    } else {                                                                  \
      GEMMD_WGMMA_REGISTERS_ASM(columns, "f16", i0, i1, i2, i3, i4, i5, i6);  \
    }                                                                         \
  }
#else
// The emulator's name for the type of the operands.
template <WgmmaType kType>
constexpr emulator::FactorFormat kWgmmaFormat =
    kType == WgmmaType::kF16    ? emulator::FactorFormat::kF16
    : kType == WgmmaType::kBf16 ? emulator::FactorFormat::kBf16
                                : emulator::FactorFormat::kTf32;
#endif

// d[64 x kColumns] = a * b (+ d where `accumulate`): a is 64x16, b is kColumns x 16, by
// descriptor, f16 or bf16; kColumns is a multiple of 8 up to 256. tf32: 64x8 and kColumns x 8
// binary32 numbers, K-major, of which the lowest 13 bits are not read.
template <WgmmaType kType, int kColumns, Major kAMajor = Major::kK, Major kBMajor = Major::kK>
GEMMD_DEVICE void Wgmma(float (&d)[kColumns / 2], std::uint64_t a_descriptor,
                        std::uint64_t b_descriptor, bool accumulate GEMMD_SITE) {
  static_assert(kColumns % 8 == 0 && kColumns >= 8 && kColumns <= 256);
  static_assert(kType != WgmmaType::kTf32 || (kAMajor == Major::kK && kBMajor == Major::kK));
#ifdef __CUDACC__
  GEMMD_WGMMA_EACH(GEMMD_WGMMA_SHARED)
#else
  emulator::WgmmaMultiply({kWgmmaFormat<kType>, kColumns, kAMajor == Major::kMn,
                           kBMajor == Major::kMn, accumulate, a_descriptor, b_descriptor},
                          d, nullptr, site);
#endif
}

// Does as Wgmma(), but with A in registers: four words a thread. They may be written again after
// the wait; once they are written, they need a WgmmaFence().
template <WgmmaType kType, int kColumns, Major kBMajor = Major::kK>
GEMMD_DEVICE void WgmmaRegisters(float (&d)[kColumns / 2], const std::uint32_t (&a)[4],
                                 std::uint64_t b_descriptor, bool accumulate GEMMD_SITE) {
  static_assert(kColumns % 8 == 0 && kColumns >= 8 && kColumns <= 256);
  static_assert(kType != WgmmaType::kTf32);  // no kernel needs it
#ifdef __CUDACC__
  GEMMD_WGMMA_EACH(GEMMD_WGMMA_REGISTERS)
#else
  emulator::WgmmaMultiply(
      {kWgmmaFormat<kType>, kColumns, false, kBMajor == Major::kMn, accumulate, 0, b_descriptor}, d,
      a, site);
#endif
}

#ifdef __CUDACC__
#undef GEMMD_WGMMA_REGISTERS
#undef GEMMD_WGMMA_REGISTERS_ASM
#undef GEMMD_WGMMA_SHARED
#undef GEMMD_WGMMA_SHARED_ASM
#undef GEMMD_WGMMA_TF32_ASM
#endif

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::ptx
