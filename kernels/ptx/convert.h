// Conversions between formats, by bits. PTX ISA, "Data Movement and Conversion
// Instructions: cvt".
#pragma once

#include <cstring>

#include "kernels/ptx/platform.h"

#ifndef __CUDACC__
#include "kernels/emulator/arithmetic/tensor_core.h"
#endif

namespace gemmd::ptx {
inline namespace GEMMD_BACKEND {

// cvt.rn.f16x2.f32: to nearest even, `low` in bits 0 to 15; NaN becomes 0x7fff.
GEMMD_DEVICE std::uint32_t PackF16(float low, float high) {
  GEMMD_ON_DEVICE(std::uint32_t word; asm("cvt.rn.f16x2.f32 %0, %1, %2;"
                                          : "=r"(word)
                                          : "f"(high), "f"(low));
                  return word;)
  GEMMD_IN_EMULATOR(
      return emulator::Narrow(emulator::HalfFormat::kF16, low) |
                 (std::uint32_t{emulator::Narrow(emulator::HalfFormat::kF16, high)} << 16);)
}

// cvt.rn.bf16x2.f32
GEMMD_DEVICE std::uint32_t PackBf16(float low, float high) {
  GEMMD_ON_DEVICE(std::uint32_t word; asm("cvt.rn.bf16x2.f32 %0, %1, %2;"
                                          : "=r"(word)
                                          : "f"(high), "f"(low));
                  return word;)
  GEMMD_IN_EMULATOR(
      return emulator::Narrow(emulator::HalfFormat::kBf16, low) |
                 (std::uint32_t{emulator::Narrow(emulator::HalfFormat::kBf16, high)} << 16);)
}

// cvt.f32.f16
GEMMD_DEVICE float WidenF16(std::uint16_t bits) {
  GEMMD_ON_DEVICE(float value; asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits)); return value;)
  GEMMD_IN_EMULATOR(return emulator::Widen(emulator::HalfFormat::kF16, bits);)
}

GEMMD_DEVICE std::uint32_t BitsOfFloat(float value) {
  std::uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

GEMMD_DEVICE float FloatOfBits(std::uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::ptx
