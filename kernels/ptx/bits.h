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

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::ptx
