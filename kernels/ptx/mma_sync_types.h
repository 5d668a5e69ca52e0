// mma.sync on tf32, int8 and f64 operands. PTX ISA, "Matrix Fragments for mma.m16n8k8",
// "... mma.m16n8k32" and "... mma.m8n8k4 with .f64 floating point type". With g = lane / 4 and
// t = lane % 4:
//   tf32, m16n8k8   a[i]  row g + 8 * (i % 2), k = t + 4 * (i / 2);  b[i]  k = t + 4 * i, column g
//   int8, m16n8k32  byte j of a[i]  row g + 8 * (i % 2), k = 4 * t + j + 16 * (i / 2);
//                   byte j of b[i]  k = 4 * t + j + 16 * i, column g
//   f64, m8n8k4     a  row g, k = t;  b  k = t, column g;  d[i]  row g, column 2 * t + i
//   f64, m16n8kK    a[i]  row g + 8 * (i % 2), k = t + 4 * (i / 2);  b[i]  k = t + 4 * i, column g
// Accumulator element e of all but m8n8k4: row g + 8 * (e / 2), column 2 * t + e % 2.
#pragma once

#include "kernels/ptx/platform.h"

#ifndef __CUDACC__
#include "kernels/emulator/mma_sync_types.h"
#endif

namespace gemmd::ptx {
inline namespace GEMMD_BACKEND {

// .m16n8k8.row.col.f32.tf32.tf32.f32: operands are binary32, of which the lowest 13 bits are not
// read.
GEMMD_DEVICE void MmaTf32(float (&d)[4], const std::uint32_t (&a)[4],
                          const std::uint32_t (&b)[2] GEMMD_SITE) {
  GEMMD_ON_DEVICE(asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));)
  GEMMD_IN_EMULATOR(emulator::MmaSyncTf32(d, a, b, site);)
}

// .m16n8k32.row.col.s32.s8.s8.s32: sums wrap.
GEMMD_DEVICE void MmaInt8(std::uint32_t (&d)[4], const std::uint32_t (&a)[4],
                          const std::uint32_t (&b)[2] GEMMD_SITE) {
  GEMMD_ON_DEVICE(asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
                               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));)
  GEMMD_IN_EMULATOR(emulator::MmaSyncInt8(d, a, b, site);)
}

// .m8n8k4.row.col.f64.f64.f64.f64
GEMMD_DEVICE void MmaF64(double (&d)[2], double a, double b GEMMD_SITE) {
  GEMMD_ON_DEVICE(asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 "
                               "{%0, %1}, {%2}, {%3}, {%0, %1};"
                               : "+d"(d[0]), "+d"(d[1])
                               : "d"(a), "d"(b));)
  GEMMD_IN_EMULATOR(emulator::MmaSyncF64(d, a, b, site);)
}

// .m16n8k4, .m16n8k8 or .m16n8k16 .row.col.f64.f64.f64.f64 (sm_90), by kK.
template <int kK>
GEMMD_DEVICE void MmaF64Rows16(double (&d)[4], const double (&a)[kK / 2],
                               const double (&b)[kK / 4] GEMMD_SITE) {
  static_assert(kK == 4 || kK == 8 || kK == 16);
#ifdef __CUDACC__
  if constexpr (kK == 4) {
    asm volatile(
        "mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 "
        "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
        : "d"(a[0]), "d"(a[1]), "d"(b[0]));
  } else if constexpr (kK == 8) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, "
        "{%0, %1, %2, %3};"
        : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]),
          "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
  }
#else
  emulator::MmaSyncF64Rows16(kK, d, a, b, site);
#endif
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::ptx
