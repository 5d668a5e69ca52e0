// mma.sync.aligned.m16n8k16.row.col: a warp multiplies a 16x16 by a 16x8 matrix and adds
// the 16x8 product to an accumulator.
//
// PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type". With
// g = lane / 4 and t = lane % 4, the halves h = 0, 1 of 32-bit registers hold
//   a[i]  row g + 8 * (i % 2),  k = 2 * t + h + 8 * (i / 2)
//   b[i]  k = 2 * t + h + 8 * i,  column g
// and accumulator element e of 4 is row g + 8 * (e / 2), column 2 * t + e % 2: an f32
// register each, or two f16 to a register. These are the layouts of ldmatrix: of a by
// LoadMatrix4(), of two b by LoadMatrix4Transposed() from rows of K.
#pragma once

#include "kernels/ptx/platform.h"

#ifndef __CUDACC__
#include "kernels/emulator/instructions/mma_sync.h"
#endif

namespace gemmd::ptx {
inline namespace GEMMD_BACKEND {

// .f32.f16.f16.f32
GEMMD_DEVICE void MmaF16(float (&d)[4], const std::uint32_t (&a)[4],
                         const std::uint32_t (&b)[2] GEMMD_SITE) {
  GEMMD_ON_DEVICE(asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));)
  GEMMD_IN_EMULATOR(emulator::MmaSync(emulator::HalfFormat::kF16, d, a, b, site);)
}

// .f32.bf16.bf16.f32
GEMMD_DEVICE void MmaBf16(float (&d)[4], const std::uint32_t (&a)[4],
                          const std::uint32_t (&b)[2] GEMMD_SITE) {
  GEMMD_ON_DEVICE(asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));)
  GEMMD_IN_EMULATOR(emulator::MmaSync(emulator::HalfFormat::kBf16, d, a, b, site);)
}

// .f16.f16.f16.f16
GEMMD_DEVICE void MmaF16AccumulateF16(std::uint32_t (&d)[2], const std::uint32_t (&a)[4],
                                      const std::uint32_t (&b)[2] GEMMD_SITE) {
  GEMMD_ON_DEVICE(asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 "
                               "{%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
                               : "+r"(d[0]), "+r"(d[1])
                               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));)
  GEMMD_IN_EMULATOR(emulator::MmaSyncF16(d, a, b, site);)
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::ptx
