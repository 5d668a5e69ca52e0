// mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X (sm_120a): a warp
// multiplies a 16x32 by a 32x8 matrix of 8-bit floats, each row of A and column of B by an E8M0
// scale, and adds the 16x8 product to f32 sums.
//
// PTX ISA, "Matrix Fragments for mma.m16n8k32". With g = lane / 4 and t = lane % 4
//   byte j of a[i]  row g + 8 * (i % 2), k = 4 * t + j + 16 * (i / 2)
//   byte j of b[i]  k = 4 * t + j + 16 * i, column g
// and element e of the sums is row g + 8 * (e / 2), column 2 * t + e % 2. These are the layouts of
// ldmatrix: of a by LoadMatrix4() from rows of A, of b from lines of B along K.
//
// PTX ISA, "Block Scaling for mma.sync". A word of scales has four; `byte` says which of them
// counts, and `thread` which lanes have it:
//   of A  the two lanes with t = 2 * thread + h, h = 0, 1, that of row g + 8 * h
//   of B  the lane with t = thread, that of column g
// So a word a lane has the scales of 32 rows or columns in 128 of K. That h is the half of the rows
// is in the ISA's figures alone; a public probe of a card finds the same.
#pragma once

#include "kernels/ptx/platform.h"

#ifndef __CUDACC__
#include "kernels/emulator/instructions/mma_sync_scaled.h"
#endif

namespace gemmd::ptx {
inline namespace GEMMD_BACKEND {

enum class MmaMxType : std::uint8_t { kE4m3, kE5m2 };

// A lane's word, and the selectors, which are alike in all lanes and known to the compiler.
struct MmaScale {
  std::uint32_t word;
  std::int32_t byte;    // 0 to 3
  std::int32_t thread;  // of A 0 or 1, of B 0 to 3
};

template <MmaMxType kA, MmaMxType kB>
GEMMD_DEVICE void MmaMx(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                        const MmaScale& a_scale, const MmaScale& b_scale GEMMD_SITE) {
#ifdef __CUDACC__
#define GEMMD_MMA_MX(types)                                                                   \
  asm volatile(                                                                               \
      "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32." types \
      ".f32.ue8m0 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, "           \
      "{%10}, {%11, %12}, {%13}, {%14, %15};"                                                 \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                        \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(a_scale.word),  \
        "h"(static_cast<std::uint16_t>(a_scale.byte)),                                        \
        "h"(static_cast<std::uint16_t>(a_scale.thread)), "r"(b_scale.word),                   \
        "h"(static_cast<std::uint16_t>(b_scale.byte)),                                        \
        "h"(static_cast<std::uint16_t>(b_scale.thread)))
  if constexpr (kA == MmaMxType::kE4m3 && kB == MmaMxType::kE4m3) {
    GEMMD_MMA_MX("e4m3.e4m3");
  } else if constexpr (kA == MmaMxType::kE4m3) {
    GEMMD_MMA_MX("e4m3.e5m2");
  } else if constexpr (kB == MmaMxType::kE4m3) {
    GEMMD_MMA_MX("e5m2.e4m3");
  } else {
    GEMMD_MMA_MX("e5m2.e5m2");
  }
#undef GEMMD_MMA_MX
#else
  const auto format = [](MmaMxType type) {
    return type == MmaMxType::kE4m3 ? emulator::FactorFormat::kE4m3 : emulator::FactorFormat::kE5m2;
  };
  emulator::MmaSyncScaled(format(kA), format(kB), d, a, b,
                          {a_scale.word, a_scale.byte, a_scale.thread},
                          {b_scale.word, b_scale.byte, b_scale.thread}, site);
#endif
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::ptx
