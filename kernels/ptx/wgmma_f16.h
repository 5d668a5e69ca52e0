// wgmma with f16 operands and an f16 accumulator (sm_90a). PTX ISA, "Asynchronous Warpgroup
// Level Matrix Multiply-Accumulate Instructions: wgmma.mma_async", D of type .f16.
//
// Everything is as wgmma.h says, but a register holds two accumulators: half h of register i of
// thread t is row t / 32 * 16 + t % 32 / 4 + i % 2 * 8, column i / 2 * 8 + t % 4 * 2 + h. kColumns
// is a multiple of 16 here; the instruction allows 8, which no tile needs.
#pragma once

#include "kernels/ptx/wgmma.h"

namespace gemmd::ptx {
inline namespace GEMMD_BACKEND {

#ifdef __CUDACC__
#define GEMMD_WGMMA_SHARED_ASM(list, columns, i0, i1, i2, i3, i4)                                 \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " i2                                             \
               ", 0;\n"                                                                           \
               "wgmma.mma_async.sync.aligned.m64n" #columns                                       \
               "k16.f16.f16.f16 {" GEMMD_WGMMA_ALL_NAMES_##list "}, " i0 ", " i1 ", p, 1, 1, " i3 \
                                                                ", " i4 ";\n}"                    \
               : GEMMD_WGMMA_ALL_WORDS_##list                                                     \
               : "l"(a_descriptor), "l"(b_descriptor),                                            \
                 "r"(static_cast<std::uint32_t>(accumulate)), "n"(static_cast<int>(kAMajor)),     \
                 "n"(static_cast<int>(kBMajor)))
#define GEMMD_WGMMA_SHARED(list, columns, i0, i1, i2, i3, i4, i5, i6) \
  if constexpr (kColumns == columns) {                                \
    GEMMD_WGMMA_SHARED_ASM(list, columns, i0, i1, i2, i3, i4);        \
  }
#define GEMMD_WGMMA_REGISTERS_ASM(list, columns, i0, i1, i2, i3, i4, i5, i6)                      \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " i5                                             \
               ", 0;\n"                                                                           \
               "wgmma.mma_async.sync.aligned.m64n" #columns                                       \
               "k16.f16.f16.f16 {" GEMMD_WGMMA_ALL_NAMES_##list "}, {" i0 ", " i1 ", " i2 ", " i3 \
                                                                "}, " i4 ", p, 1, 1, " i6 ";\n}"  \
               : GEMMD_WGMMA_ALL_WORDS_##list                                                     \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b_descriptor),                   \
                 "r"(static_cast<std::uint32_t>(accumulate)), "n"(static_cast<int>(kBMajor)))
#define GEMMD_WGMMA_REGISTERS(list, columns, i0, i1, i2, i3, i4, i5, i6)  \
  if constexpr (kColumns == columns) {                                    \
    GEMMD_WGMMA_REGISTERS_ASM(list, columns, i0, i1, i2, i3, i4, i5, i6); \
  }
#endif

// d[64 x kColumns] = a * b (+ d where `accumulate`), each step rounded to f16.
template <int kColumns, Major kAMajor = Major::kK, Major kBMajor = Major::kK>
GEMMD_DEVICE void WgmmaF16(std::uint32_t (&d)[kColumns / 4], std::uint64_t a_descriptor,
                           std::uint64_t b_descriptor, bool accumulate GEMMD_SITE) {
  static_assert(kColumns % 16 == 0 && kColumns >= 16 && kColumns <= 256);
#ifdef __CUDACC__
  GEMMD_WGMMA_EACH_TO_128(GEMMD_WGMMA_SHARED)
#else
  emulator::WgmmaMultiply({emulator::FactorFormat::kF16, kColumns, kAMajor == Major::kMn,
                           kBMajor == Major::kMn, accumulate, a_descriptor, b_descriptor},
                          d, nullptr, site);
#endif
}

// Does as WgmmaF16(), but with A in registers, as WgmmaRegisters() has it.
template <int kColumns, Major kBMajor = Major::kK>
GEMMD_DEVICE void WgmmaF16Registers(std::uint32_t (&d)[kColumns / 4], const std::uint32_t (&a)[4],
                                    std::uint64_t b_descriptor, bool accumulate GEMMD_SITE) {
  static_assert(kColumns % 16 == 0 && kColumns >= 16 && kColumns <= 256);
#ifdef __CUDACC__
  GEMMD_WGMMA_EACH_TO_128(GEMMD_WGMMA_REGISTERS)
#else
  emulator::WgmmaMultiply({emulator::FactorFormat::kF16, kColumns, false, kBMajor == Major::kMn,
                           accumulate, 0, b_descriptor},
                          d, a, site);
#endif
}

#ifdef __CUDACC__
#undef GEMMD_WGMMA_REGISTERS
#undef GEMMD_WGMMA_REGISTERS_ASM
#undef GEMMD_WGMMA_SHARED
#undef GEMMD_WGMMA_SHARED_ASM
#endif

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::ptx
