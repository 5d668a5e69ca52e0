// Element types of ladder C: how elements become f32, sums elements, and what tcgen05 calls them.
#pragma once

#include "kernels/ptx/convert.h"
#include "kernels/ptx/platform.h"
#include "kernels/ptx/tcgen05_descriptor.h"

namespace gemmd::blackwell_bf16 {
inline namespace GEMMD_BACKEND {

struct F16 {
  static constexpr ptx::Tcgen05Type kType = ptx::Tcgen05Type::kF16;
  static GEMMD_DEVICE float Widen(std::uint16_t bits) { return ptx::WidenF16(bits); }
  static GEMMD_DEVICE std::uint32_t Pack(float low, float high) { return ptx::PackF16(low, high); }
};

struct Bf16 {
  static constexpr ptx::Tcgen05Type kType = ptx::Tcgen05Type::kBf16;
  static GEMMD_DEVICE float Widen(std::uint16_t bits) {
    return ptx::FloatOfBits(std::uint32_t{bits} << 16);
  }
  static GEMMD_DEVICE std::uint32_t Pack(float low, float high) { return ptx::PackBf16(low, high); }
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::blackwell_bf16
