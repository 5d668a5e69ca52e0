// Element types and activations of epilogues, for this folder's kernel and for kernels
// that fuse them.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/numbers/types.h"
#include "kernels/ptx/convert.h"
#include "kernels/ptx/platform.h"

namespace gemmd::epilogue {
inline namespace GEMMD_BACKEND {

// Each type has its form in memory, the type of its arithmetic, and the conversions between them.
struct F64 {
  using Storage = double;
  using Arithmetic = double;
  GEMMD_DEVICE static double Widen(double x) { return x; }
  GEMMD_DEVICE static double Narrow(double x) { return x; }
};

struct F32 {
  using Storage = float;
  using Arithmetic = float;
  GEMMD_DEVICE static float Widen(float x) { return x; }
  GEMMD_DEVICE static float Narrow(float x) { return x; }
};

struct Int32 {
  using Storage = std::int32_t;
  using Arithmetic = double;
  GEMMD_DEVICE static double Widen(std::int32_t x) { return x; }
};

struct Bf16 {
  using Storage = std::uint16_t;
  using Arithmetic = float;
  GEMMD_DEVICE static float Widen(std::uint16_t x) {
    return ptx::FloatOfBits(std::uint32_t{x} << 16);
  }
  GEMMD_DEVICE static std::uint16_t Narrow(float x) {
    return static_cast<std::uint16_t>(ptx::PackBf16(x, 0));
  }
};

struct F16 {
  using Storage = std::uint16_t;
  using Arithmetic = float;
  // Exact: the magnitude is shifted into binary32's fields, and 2^112 corrects its
  // exponent, which also normalises subnormals.
  GEMMD_DEVICE static float Widen(std::uint16_t x) {
    const std::uint32_t sign = std::uint32_t{x & 0x8000u} << 16;
    const std::uint32_t magnitude = x & 0x7fffu;
    if (magnitude >= 0x7c00u) {
      return ptx::FloatOfBits(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
    }
    return ptx::FloatOfBits(sign | ptx::BitsOfFloat(ptx::FloatOfBits(magnitude << 13) * 0x1p112f));
  }
  GEMMD_DEVICE static std::uint16_t Narrow(float x) {
    return static_cast<std::uint16_t>(ptx::PackF16(x, 0));
  }
};

// Computes as ActivateAs() in kernels/cpu/epilogue.h.
template <typename T>
GEMMD_DEVICE T Activate(Activation activation, T x) {
  switch (activation) {
    case Activation::kRelu:
      return x < T{0} ? T{0} : x;
    case Activation::kGeluTanh: {
      constexpr T kSqrtTwoOverPi = T(0.79788456080286535588);
      return T(0.5) * x * (T{1} + std::tanh(kSqrtTwoOverPi * (x + T(0.044715) * x * x * x)));
    }
    case Activation::kSilu:
      return x / (T{1} + std::exp(-x));
    default:
      return x;
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::epilogue
