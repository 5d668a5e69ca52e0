// wgmma on operands of 8 bits: m64nNk32 of e4m3 and e5m2 with f32 sums, of int8 and uint8 with
// int32 ones (sm_90a). PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate
// Instructions".
//
// wgmma.h has the order of fence, products, commit and wait, and the places of accumulators. Both
// operands are K-major, the only form that there is for 8 bits.
#pragma once

#include <cstdint>

#include "kernels/ptx/platform.h"

#ifdef __CUDACC__
#include "kernels/ptx/wgmma_byte_operands.h"
#include "kernels/ptx/wgmma_operands.h"
#else
#include "kernels/emulator/instructions/wgmma_bytes.h"
#endif

namespace gemmd::ptx {
inline namespace GEMMD_BACKEND {

enum class ByteType : int { kE4m3, kE5m2, kS8, kU8 };

constexpr bool IsInteger(ByteType type) { return type == ByteType::kS8 || type == ByteType::kU8; }

#ifdef __CUDACC__
// wgmma.mma_async.sync.aligned.m64nNk32.f32.TYPE.TYPE, scales 1. The predicate scale-d says whether
// D takes part in the sum.
#define GEMMD_WGMMA_FP8_ASM(columns, a_type, b_type, i0, i1, i2)                         \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " i2                                    \
               ", 0;\n"                                                                  \
               "wgmma.mma_async.sync.aligned.m64n" #columns "k32.f32." a_type "." b_type \
               " {" GEMMD_WGMMA_ALL_NAMES_##columns "}, " i0 ", " i1 ", p, 1, 1;\n}"     \
               : GEMMD_WGMMA_ALL_FLOATS_##columns                                        \
               : "l"(a_descriptor), "l"(b_descriptor),                                   \
                 "r"(static_cast<std::uint32_t>(accumulate)))
#define GEMMD_WGMMA_FP8(columns, i0, i1, i2, i3, i4, i5, i6)        \
  if constexpr (kColumns == columns) {                              \
    if constexpr (kA == ByteType::kE4m3 && kB == ByteType::kE4m3) { \
      GEMMD_WGMMA_FP8_ASM(columns, "e4m3", "e4m3", i0, i1, i2);     \
    } else if constexpr (kA == ByteType::kE4m3) {                   \
      GEMMD_WGMMA_FP8_ASM(columns, "e4m3", "e5m2", i0, i1, i2);     \
    } else if constexpr (kB == ByteType::kE4m3) {                   \
      GEMMD_WGMMA_FP8_ASM(columns, "e5m2", "e4m3", i0, i1, i2);     \
    } else {                                                        \
      GEMMD_WGMMA_FP8_ASM(columns, "e5m2", "e5m2", i0, i1, i2);     \
    }                                                               \
  }
// wgmma.mma_async.sync.aligned.m64nNk32.s32.TYPE.TYPE: sums wrap.
#define GEMMD_WGMMA_INT8_ASM(columns, a_type, b_type, i0, i1, i2)                        \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " i2                                    \
               ", 0;\n"                                                                  \
               "wgmma.mma_async.sync.aligned.m64n" #columns "k32.s32." a_type "." b_type \
               " {" GEMMD_WGMMA_ALL_NAMES_##columns "}, " i0 ", " i1 ", p;\n}"           \
               : GEMMD_WGMMA_ALL_INTS_##columns                                          \
               : "l"(a_descriptor), "l"(b_descriptor),                                   \
                 "r"(static_cast<std::uint32_t>(accumulate)))
#define GEMMD_WGMMA_INT8(columns, i0, i1, i2)                   \
  if constexpr (kColumns == columns) {                          \
    if constexpr (kA == ByteType::kS8 && kB == ByteType::kS8) { \
      GEMMD_WGMMA_INT8_ASM(columns, "s8", "s8", i0, i1, i2);    \
    } else if constexpr (kA == ByteType::kS8) {                 \
      GEMMD_WGMMA_INT8_ASM(columns, "s8", "u8", i0, i1, i2);    \
    } else if constexpr (kB == ByteType::kS8) {                 \
      GEMMD_WGMMA_INT8_ASM(columns, "u8", "s8", i0, i1, i2);    \
    } else {                                                    \
      GEMMD_WGMMA_INT8_ASM(columns, "u8", "u8", i0, i1, i2);    \
    }                                                           \
  }
#else
constexpr emulator::ByteFormat EmulatedFormat(ByteType type) {
  switch (type) {
    case ByteType::kE4m3:
      return emulator::ByteFormat::kE4m3;
    case ByteType::kE5m2:
      return emulator::ByteFormat::kE5m2;
    case ByteType::kS8:
      return emulator::ByteFormat::kS8;
    default:
      return emulator::ByteFormat::kU8;
  }
}
#endif

// d[64 x kColumns] = a * b (+ d where `accumulate`): a is 64x32 of kA, b is kColumns x 32 of kB, by
// descriptor; kColumns is a multiple of 8 up to 256.
template <ByteType kA, ByteType kB, int kColumns>
GEMMD_DEVICE void WgmmaBytes(float (&d)[kColumns / 2], std::uint64_t a_descriptor,
                             std::uint64_t b_descriptor, bool accumulate GEMMD_SITE) {
  static_assert(kColumns % 8 == 0 && kColumns >= 8 && kColumns <= 256);
  static_assert(!IsInteger(kA) && !IsInteger(kB));
#ifdef __CUDACC__
  GEMMD_WGMMA_EACH(GEMMD_WGMMA_FP8)
#else
  emulator::WgmmaBytes(
      {EmulatedFormat(kA), EmulatedFormat(kB), kColumns, accumulate, a_descriptor, b_descriptor}, d,
      site);
#endif
}

// Does as the above for integers; kColumns is 8, 24, or a multiple of 16.
template <ByteType kA, ByteType kB, int kColumns>
GEMMD_DEVICE void WgmmaBytes(std::int32_t (&d)[kColumns / 2], std::uint64_t a_descriptor,
                             std::uint64_t b_descriptor, bool accumulate GEMMD_SITE) {
  static_assert(kColumns == 8 || kColumns == 24 || (kColumns % 16 == 0 && kColumns <= 256));
  static_assert(IsInteger(kA) && IsInteger(kB));
#ifdef __CUDACC__
  GEMMD_WGMMA_EACH_INTEGER(GEMMD_WGMMA_INT8)
#else
  emulator::WgmmaBytes(
      {EmulatedFormat(kA), EmulatedFormat(kB), kColumns, accumulate, a_descriptor, b_descriptor}, d,
      site);
#endif
}

#ifdef __CUDACC__
#undef GEMMD_WGMMA_INT8
#undef GEMMD_WGMMA_INT8_ASM
#undef GEMMD_WGMMA_FP8
#undef GEMMD_WGMMA_FP8_ASM
#endif

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::ptx
