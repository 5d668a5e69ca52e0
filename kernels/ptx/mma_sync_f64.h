// mma.sync on f64 operands. PTX ISA, "Matrix Fragments for mma.m16n8k4", "... mma.m16n8k8" and
// "... mma.m16n8k16 with floating point type". With g = lane / 4 and t = lane % 4:
//   a[i]  row g + 8 * (i % 2), k = t + 4 * (i / 2)
//   b[i]  k = t + 4 * i, column g
//   d[i]  row g + 8 * (i / 2), column 2 * t + i % 2
#pragma once

#include "kernels/ptx/platform.h"

#ifndef __CUDACC__
#include "kernels/emulator/instructions/mma_sync_f64.h"
#endif

namespace gemmd::ptx {
inline namespace GEMMD_BACKEND {

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
