// Codes of 4, 6, 8, 16 or 32 bits in memory: a stream of bits, lowest first. Code i is in the bits
// from i * bits on, and bit b is bit b % 8 of byte b / 8. So of two codes of 4 bits in a byte the
// even one is in the low half, and four codes of 6 bits are 3 bytes, little-endian.
//
// Sources: two e2m1 in a byte, the even one low, is torch's float4_e2m1fn_x2 and CUDA's
// __nv_fp4x2_e2m1; dense 6-bit codes, 16 in 12 bytes, are what tensor copies of type .b6x16_p32
// read from global memory (PTX ISA, "Tensors", sub-byte types). OCP MX leaves storage open.
#pragma once

#include <cstdint>

namespace gemmd {

inline std::uint32_t LoadCode(const void* codes, int bits, std::int64_t index) {
  const auto* bytes = static_cast<const std::uint8_t*>(codes);
  const std::int64_t first_bit = index * bits;
  const std::uint8_t* at = bytes + first_bit / 8;
  const int shift = static_cast<int>(first_bit % 8);
  std::uint32_t code = static_cast<std::uint32_t>(*at) >> shift;
  for (int have = 8 - shift; have < bits; have += 8) {
    code |= static_cast<std::uint32_t>(*++at) << have;
  }
  return bits == 32 ? code : code & ((1u << bits) - 1);
}

// Leaves the bits around the code as they were.
inline void StoreCode(void* codes, int bits, std::int64_t index, std::uint32_t code) {
  auto* bytes = static_cast<std::uint8_t*>(codes);
  for (int done = 0; done < bits;) {
    const std::int64_t bit = index * bits + done;
    const int shift = static_cast<int>(bit % 8);
    const int count = bits - done < 8 - shift ? bits - done : 8 - shift;
    const std::uint32_t mask = ((1u << count) - 1) << shift;
    std::uint8_t& byte = bytes[bit / 8];
    byte = static_cast<std::uint8_t>((byte & ~mask) | (((code >> done) << shift) & mask));
    done += count;
  }
}

// Bytes of that many codes.
inline std::int64_t PackedBytes(int bits, std::int64_t count) { return (count * bits + 7) / 8; }

}  // namespace gemmd
