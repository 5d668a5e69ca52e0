// Arithmetic on two 16-bit floats in a register. PTX ISA, "Half Precision Floating Point
// Instructions": sub, mul.
#pragma once

#include "kernels/ptx/platform.h"

#ifndef __CUDACC__
#include "kernels/emulator/arithmetic/tensor_core.h"
#endif

namespace gemmd::ptx {
inline namespace GEMMD_BACKEND {

#ifndef __CUDACC__
// Applies `f` to each half of a and b, as binary32 numbers. Its result, rounded again from 24 bits
// to 11 or 8, is what one rounding gives, for sums and, above the subnormal numbers, for products.
template <typename F>
std::uint32_t OfHalves(emulator::HalfFormat format, std::uint32_t a, std::uint32_t b, F f) {
  std::uint32_t word = 0;
  for (int shift = 0; shift < 32; shift += 16) {
    const float x = emulator::Widen(format, static_cast<std::uint16_t>(a >> shift));
    const float y = emulator::Widen(format, static_cast<std::uint16_t>(b >> shift));
    word |= std::uint32_t{emulator::Narrow(format, f(x, y))} << shift;
  }
  return word;
}
#endif

// sub.rn.bf16x2
GEMMD_DEVICE std::uint32_t SubtractBf16(std::uint32_t a, std::uint32_t b) {
  GEMMD_ON_DEVICE(std::uint32_t word; asm("sub.rn.bf16x2 %0, %1, %2;"
                                          : "=r"(word)
                                          : "r"(a), "r"(b));
                  return word;)
  GEMMD_IN_EMULATOR(
      return OfHalves(emulator::HalfFormat::kBf16, a, b, [](float x, float y) { return x - y; });)
}

// sub.rn.f16x2
GEMMD_DEVICE std::uint32_t SubtractF16(std::uint32_t a, std::uint32_t b) {
  GEMMD_ON_DEVICE(std::uint32_t word; asm("sub.rn.f16x2 %0, %1, %2;"
                                          : "=r"(word)
                                          : "r"(a), "r"(b));
                  return word;)
  GEMMD_IN_EMULATOR(
      return OfHalves(emulator::HalfFormat::kF16, a, b, [](float x, float y) { return x - y; });)
}

// mul.rn.bf16x2
GEMMD_DEVICE std::uint32_t MultiplyBf16(std::uint32_t a, std::uint32_t b) {
  GEMMD_ON_DEVICE(std::uint32_t word; asm("mul.rn.bf16x2 %0, %1, %2;"
                                          : "=r"(word)
                                          : "r"(a), "r"(b));
                  return word;)
  GEMMD_IN_EMULATOR(
      return OfHalves(emulator::HalfFormat::kBf16, a, b, [](float x, float y) { return x * y; });)
}

// mul.rn.f16x2
GEMMD_DEVICE std::uint32_t MultiplyF16(std::uint32_t a, std::uint32_t b) {
  GEMMD_ON_DEVICE(std::uint32_t word; asm("mul.rn.f16x2 %0, %1, %2;"
                                          : "=r"(word)
                                          : "r"(a), "r"(b));
                  return word;)
  GEMMD_IN_EMULATOR(
      return OfHalves(emulator::HalfFormat::kF16, a, b, [](float x, float y) { return x * y; });)
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::ptx
