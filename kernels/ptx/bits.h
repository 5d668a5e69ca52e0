// Bits of a register, and what the compiler may know of them. PTX ISA, "Logic and Shift
// Instructions: lop3".
#pragma once

#include "kernels/ptx/platform.h"

namespace gemmd::ptx {
inline namespace GEMMD_BACKEND {

// lop3.b32: (word & mask) | set, in one instruction. With two constants that fit into no one
// instruction, the compiler makes two of the plain expression.
GEMMD_DEVICE std::uint32_t MaskAndSet(std::uint32_t word, std::uint32_t mask, std::uint32_t set) {
  GEMMD_ON_DEVICE(std::uint32_t result; asm("lop3.b32 %0, %1, %2, %3, 0xea;"
                                            : "=r"(result)
                                            : "r"(word), "r"(mask), "r"(set));
                  return result;)
  GEMMD_IN_EMULATOR(return (word & mask) | set;)
}

// shf.l.wrap.b32: `count` is 0 to 31.
GEMMD_DEVICE std::uint32_t RotateLeft(std::uint32_t word, std::uint32_t count) {
  GEMMD_ON_DEVICE(return __funnelshift_l(word, word, count);)
  GEMMD_IN_EMULATOR(return count == 0 ? word : word << count | word >> (32 - count);)
}

// max.u16x2: of each half.
GEMMD_DEVICE std::uint32_t MaxOfHalves(std::uint32_t a, std::uint32_t b) {
  GEMMD_ON_DEVICE(std::uint32_t result; asm("max.u16x2 %0, %1, %2;"
                                            : "=r"(result)
                                            : "r"(a), "r"(b));
                  return result;)
  GEMMD_IN_EMULATOR(const std::uint32_t low = (a & 0xffff) > (b & 0xffff) ? a & 0xffff : b & 0xffff;
                    const std::uint32_t high = a >> 16 > b >> 16 ? a >> 16 : b >> 16;
                    return high << 16 | low;)
}

// prmt.b32: byte `nth` of the word in bits 0 to 7 and 16 to 23, zeros elsewhere.
GEMMD_DEVICE std::uint32_t ByteInHalves(std::uint32_t word, int nth) {
  GEMMD_ON_DEVICE(return __byte_perm(word, 0, 0x4040 | nth << 8 | nth);)
  GEMMD_IN_EMULATOR(return (word >> (8 * nth) & 0xff) * 0x00010001;)
}

// Returns `value`, and hides from the compiler how it was computed: the compiler then keeps it in a
// register, where it would compute it again at each use.
GEMMD_DEVICE std::uint32_t Keep(std::uint32_t value) {
  GEMMD_ON_DEVICE(asm volatile("" : "+r"(value));)
  return value;
}

// Keeps an array's elements in registers from here on: what wgmma reads from registers is computed
// before its fence, and not between its instructions.
template <int kCount>
GEMMD_DEVICE void KeepAll(std::uint32_t (&values)[kCount]) {
  GEMMD_UNROLL
  for (int i = 0; i < kCount; ++i) values[i] = Keep(values[i]);
}

// Keeps accumulators likewise: what reads them stays behind the wait that comes before.
template <int kCount>
GEMMD_DEVICE void KeepAll(float (&values)[kCount]) {
  GEMMD_UNROLL
  for (float& value : values) {
    GEMMD_ON_DEVICE(asm volatile("" : "+f"(value)::"memory");)
    GEMMD_IN_EMULATOR(static_cast<void>(value);)
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::ptx
