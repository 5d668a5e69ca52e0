// The element types that CPU kernels read and write, and how products of them are made.
#pragma once

#include <cstdint>

#include "base/numbers/float_bits.h"
#include "base/numbers/fp8.h"
#include "base/numbers/types.h"

namespace gemmd {

// ------------------------------------------------------------- as stored

// Element types: what is stored, the value that BLAS multiplies (exact), and rounding back.
struct F64 {
  using Storage = double;
  using Wide = double;
  static constexpr DataType kType = DataType::kF64;
  static double Widen(double x) { return x; }
  static double Narrow(double x) { return x; }
};

struct F32 {
  using Storage = float;
  using Wide = float;
  static constexpr DataType kType = DataType::kF32;
  static float Widen(float x) { return x; }
  static float Narrow(float x) { return x; }
};

struct F16 {
  using Storage = std::uint16_t;
  using Wide = float;
  static constexpr DataType kType = DataType::kF16;
  static float Widen(std::uint16_t x) { return FromF16(x); }
  static std::uint16_t Narrow(float x) { return ToF16(x); }
};

struct Bf16 {
  using Storage = std::uint16_t;
  using Wide = float;
  static constexpr DataType kType = DataType::kBf16;
  static float Widen(std::uint16_t x) { return FromBf16(x); }
  static std::uint16_t Narrow(float x) { return ToBf16(x); }
};

struct Int8 {
  using Storage = std::int8_t;
  using Wide = float;
  static constexpr DataType kType = DataType::kInt8;
  static float Widen(std::int8_t x) { return x; }
};

struct Fp8E4M3 {
  using Storage = std::uint8_t;
  using Wide = float;
  static constexpr DataType kType = DataType::kFp8E4M3;
  static float Widen(std::uint8_t x) { return FromFp8E4M3(x); }
};

struct Fp8E5M2 {
  using Storage = std::uint8_t;
  using Wide = float;
  static constexpr DataType kType = DataType::kFp8E5M2;
  static float Widen(std::uint8_t x) { return FromFp8E5M2(x); }
};

// The exact integer product as D: no arithmetic after the sum.
struct Int32 {
  using Storage = std::int32_t;
  using Wide = double;
  static constexpr DataType kType = DataType::kInt32;
  static std::int32_t Widen(std::int32_t x) { return x; }
  static std::int32_t Narrow(double x) { return static_cast<std::int32_t>(x); }
};

// ------------------------------------------------------------- as multiplied

// Elements of A and B, what BLAS multiplies them in, what products are summed in, and
// what the epilogue computes in. Only quantized products have scales.
template <typename Element>
struct PlainProduct {
  using A = Element;
  using B = Element;
  using Multiply = typename Element::Wide;
  using Accumulate = Multiply;
  using Epilogue = Multiply;
  static constexpr DataType kAccumulateType =
      sizeof(Multiply) == sizeof(double) ? DataType::kF64 : DataType::kF32;
  static constexpr bool kScaled = false;
};

struct Int8Product {
  using A = Int8;
  using B = Int8;
  using Multiply = float;
  using Accumulate = std::int32_t;
  using Epilogue = double;
  static constexpr DataType kAccumulateType = DataType::kInt32;
  static constexpr bool kScaled = true;
};

// The epilogue is in f64 so that two small or large scales cannot leave its range.
template <typename ElementOfA, typename ElementOfB>
struct Fp8Product {
  using A = ElementOfA;
  using B = ElementOfB;
  using Multiply = float;
  using Accumulate = float;
  using Epilogue = double;
  static constexpr DataType kAccumulateType = DataType::kF32;
  static constexpr bool kScaled = true;
};

}  // namespace gemmd
