// The kernel behind epilogue.h. It is bound by memory: a warp reads neighbouring elements
// of D's lines, and each thread has four of them in flight.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/ptx/convert.h"
#include "kernels/ptx/global_memory.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/platform.h"
#include "kernels/types.h"

namespace gemmd::epilogue {

inline constexpr int kThreads = 256;
inline constexpr int kElementsPerThread = 4;

inline namespace GEMMD_BACKEND {

// Elements (line, i): i runs fastest in D. Null pointers stand for what is absent.
struct EpilogueParams {
  const void* product;
  const void* c;
  const void* bias;
  void* d;
  const float* a_scales;
  const float* b_scales;
  std::int64_t product_pitch;  // between lines, in elements
  std::int64_t d_pitch;
  std::int64_t c_row_stride;
  std::int64_t c_column_stride;
  std::int64_t lines;
  std::int64_t line_length;
  std::int32_t a_scale_step;  // 1: one a row; 0: one for all
  std::int32_t b_scale_step;
  std::uint32_t line_threads_log2;  // threads that share a line, of kThreads
  std::uint32_t blocks_along_line;
  double alpha;
  double beta;
  bool lines_are_rows;
  Activation activation;
};

// ------------------------------------------------------------- element types

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

// ------------------------------------------------------------- the kernel

// As ActivateAs() in kernels/cpu/epilogue.h.
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

template <class In, class Out>
GEMMD_DEVICE void StoreElement(const EpilogueParams& params, std::int64_t line, std::int64_t i,
                               typename In::Storage product) {
  using T = typename In::Arithmetic;
  const std::int64_t row = params.lines_are_rows ? line : i;
  const std::int64_t column = params.lines_are_rows ? i : line;
  T value = static_cast<T>(In::Widen(product));
  if (params.a_scales != nullptr) {
    value *= static_cast<T>(ptx::LoadGlobal(params.a_scales + row * params.a_scale_step));
  }
  if (params.b_scales != nullptr) {
    value *= static_cast<T>(ptx::LoadGlobal(params.b_scales + column * params.b_scale_step));
  }
  value = static_cast<T>(params.alpha) * value;
  using Storage = typename Out::Storage;
  if (params.c != nullptr) {
    const auto* c = static_cast<const Storage*>(params.c) + row * params.c_row_stride +
                    column * params.c_column_stride;
    value += static_cast<T>(params.beta) * static_cast<T>(Out::Widen(ptx::LoadGlobal(c)));
  }
  if (params.bias != nullptr) {
    const auto* bias = static_cast<const Storage*>(params.bias) + column;
    value += static_cast<T>(Out::Widen(ptx::LoadGlobal(bias)));
  }
  value = Activate(params.activation, value);
  ptx::StoreGlobal(static_cast<Storage*>(params.d) + line * params.d_pitch + i,
                   static_cast<Storage>(Out::Narrow(static_cast<typename Out::Arithmetic>(value))));
}

template <class In, class Out>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(kThreads, 4)
    Epilogue(GEMMD_GRID_CONSTANT const EpilogueParams params) {
  const std::uint32_t line_threads = 1u << params.line_threads_log2;
  const std::uint32_t lines_per_block = kThreads >> params.line_threads_log2;
  const std::uint32_t block = ptx::BlockIndexX();
  const std::int64_t line =
      static_cast<std::int64_t>(block / params.blocks_along_line) * lines_per_block +
      (ptx::ThreadIndex() >> params.line_threads_log2);
  const std::int64_t first = static_cast<std::int64_t>(block % params.blocks_along_line) *
                                 (line_threads * kElementsPerThread) +
                             (ptx::ThreadIndex() & (line_threads - 1));
  if (line >= params.lines) return;
  const auto* product =
      static_cast<const typename In::Storage*>(params.product) + line * params.product_pitch;
  typename In::Storage values[kElementsPerThread] = {};
  GEMMD_UNROLL
  for (int j = 0; j < kElementsPerThread; ++j) {
    const std::int64_t i = first + static_cast<std::int64_t>(j) * line_threads;
    if (i < params.line_length) values[j] = ptx::LoadGlobal(product + i);
  }
  GEMMD_UNROLL
  for (int j = 0; j < kElementsPerThread; ++j) {
    const std::int64_t i = first + static_cast<std::int64_t>(j) * line_threads;
    if (i < params.line_length) StoreElement<In, Out>(params, line, i, values[j]);
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::epilogue
