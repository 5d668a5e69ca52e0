// tcgen05's descriptors and layouts a second time, from the tables and figures of PTX ISA 9.2
// alone: as bit ranges, as shapes with strides, and as numbered bits, none of which the emulator
// computes with. Each names its section.
#pragma once

#include <cstdint>

namespace gemmd::testing {

// Bits first to last.
inline std::uint64_t Bits(std::uint64_t value, int first, int last) {
  return value << (63 - last) >> (63 - last + first);
}

// 9.7.16.4.1, "Shared Memory Descriptor", table 40; matrix-descriptor-encode(x) is
// (x & 0x3FFFF) >> 4.
struct ModelDescriptor {
  explicit ModelDescriptor(std::uint64_t bits)
      : start(Bits(bits, 0, 13) << 4),
        leading(Bits(bits, 16, 29) << 4),
        stride(Bits(bits, 32, 45) << 4),
        constant(Bits(bits, 46, 48)),
        base_offset(Bits(bits, 49, 51)),
        is_absolute(Bits(bits, 52, 52)),
        zero(Bits(bits, 53, 60) | Bits(bits, 14, 15) | Bits(bits, 30, 31)),
        swizzle(Bits(bits, 61, 63)) {}

  std::uint64_t start, leading, stride, constant, base_offset, is_absolute, zero, swizzle;
};

// 9.7.16.4.2, "Instruction Descriptor", table 42, the column of .kind::f16.
struct ModelInstruction {
  explicit ModelInstruction(std::uint32_t bits)
      : sparsity(Bits(bits, 0, 2)),
        saturate(Bits(bits, 3, 3)),
        d_type(Bits(bits, 4, 5)),
        a_type(Bits(bits, 7, 9)),
        b_type(Bits(bits, 10, 12)),
        negate_a(Bits(bits, 13, 13)),
        negate_b(Bits(bits, 14, 14)),
        transpose_a(Bits(bits, 15, 15)),
        transpose_b(Bits(bits, 16, 16)),
        n(Bits(bits, 17, 22) << 3),
        m(Bits(bits, 24, 28) << 4),
        reserved(Bits(bits, 6, 6) | Bits(bits, 23, 23) | Bits(bits, 29, 31)) {}

  std::uint64_t sparsity, saturate, d_type, a_type, b_type, negate_a, negate_b, transpose_a,
      transpose_b, n, m, reserved;
};

// 9.7.16.4.2, "Instruction Descriptor", the table of .kind::mxf8f6f4.
struct ModelMxInstruction {
  explicit ModelMxInstruction(std::uint32_t bits)
      : sparsity(Bits(bits, 2, 2)),
        b_scale_id(Bits(bits, 4, 5)),
        a_type(Bits(bits, 7, 9)),
        b_type(Bits(bits, 10, 12)),
        negate_a(Bits(bits, 13, 13)),
        negate_b(Bits(bits, 14, 14)),
        transpose_a(Bits(bits, 15, 15)),
        transpose_b(Bits(bits, 16, 16)),
        n(Bits(bits, 17, 22) << 3),
        scale_type(Bits(bits, 23, 23)),
        m(Bits(bits, 27, 28) << 7),
        a_scale_id(Bits(bits, 29, 30)),
        reserved(Bits(bits, 0, 1) | Bits(bits, 3, 3) | Bits(bits, 6, 6) | Bits(bits, 24, 26) |
                 Bits(bits, 31, 31)) {}

  std::uint64_t sparsity, b_scale_id, a_type, b_type, negate_a, negate_b, transpose_a, transpose_b,
      n, scale_type, m, a_scale_id, reserved;
};

// 9.7.16.5, "Shared Memory Layout and Swizzling" (9.7.16.10.6 in other releases), the canonical
// layouts: nested shapes of elements and their strides, T elements to 16 bytes, behind
// Swizzle<B, 4, 3>, which XORs the B address bits from 4 with those from 7. `bits` is B: 0 without
// a swizzle.
//   K-major    none      ((8, m), (T, 2k)) : ((T, SBO), (1, LBO))
//              swizzled  ((8, m), (T, 2^B)) : ((2^B T, SBO), (1, T))
//   MN-major   none      ((T, m), (8, k)) : ((1, SBO), (T, LBO))
//              swizzled  ((T, 2^B, m), (8, k)) : ((1, T, LBO), (2^B T, SBO))
struct ModelOperand {
  int bits;
  bool is_mn_major;
  std::uint32_t element_bytes;
  std::uint32_t start;
  std::uint32_t leading;  // LBO, bytes
  std::uint32_t stride;   // SBO, bytes

  // The address of the element of that row of M or N and of that k.
  std::uint32_t Address(std::uint32_t mn, std::uint32_t k) const {
    const std::uint32_t t = 16 / element_bytes;
    const std::uint32_t span = 1u << bits;
    std::uint32_t offset = 0;
    if (!is_mn_major) {
      const std::uint32_t rows = mn % 8 * (bits == 0 ? 16 : span * 16) + mn / 8 * stride;
      offset = rows + k % t * element_bytes + k / t * (bits == 0 ? leading : 16);
    } else if (bits == 0) {
      offset = mn % t * element_bytes + mn / t * stride + k % 8 * 16 + k / 8 * leading;
    } else {
      offset = mn % t * element_bytes + mn / t % span * 16 + mn / t / span * leading +
               k % 8 * (span * 16) + k / 8 * stride;
    }
    const std::uint32_t address = start + offset;
    const std::uint32_t mask = span - 1;
    return address ^ ((address >> 7 & mask) << 4);
  }
};

struct ModelCell {
  std::uint32_t lane;
  std::uint32_t column;
};

// 9.7.16.10.5, "Data Path Layout Organization": where row and column of D lie in the block that has
// them. `rows` is M, of both blocks of a pair; a row of the second counts from 0 again.
inline ModelCell ModelAccumulator(std::uint32_t rows, int blocks, std::uint32_t columns,
                                  std::uint32_t row, std::uint32_t column) {
  if (rows == 64) {  // figure 215, layout F: a warp's 32 lanes have 16 rows, in the first 16
    constexpr std::uint32_t kFirstLane[4] = {0, 32, 64, 96};
    return {kFirstLane[row / 16] + row % 16, column};
  }
  if (blocks == 2 && rows == 128) {  // figure 207, layout B: columns' halves above one another
    return column < columns / 2 ? ModelCell{row, column}
                                : ModelCell{row + 64, column - columns / 2};
  }
  return {row, column};  // figures 211 and 205, layouts D and A
}

// 9.7.16.2.3.1, "Memory Layout": what register `i` of thread `t` of a warp is, as a number of bits
// into rows of the shape, one a lane, repeated along the columns.
//   .32x32b    figure 183: a row of 32 bits for each of 32 threads
//   .16x256b   figure 186: 64 bits a thread, four threads a row, eight rows; then rows 8 to 15
inline ModelCell ModelFragment(bool is_16x256b, std::uint32_t t, std::uint32_t i) {
  if (!is_16x256b) return {t, i};
  const std::uint32_t value_bits = i % 4 * 32;
  const std::uint32_t bit = t % 4 * 64 + t / 4 * 256 + value_bits % 64 + value_bits / 64 * 2048;
  return {bit / 256, bit % 256 / 32 + i / 4 * 8};
}

}  // namespace gemmd::testing
