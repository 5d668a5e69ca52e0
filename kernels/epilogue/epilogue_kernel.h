// The kernel behind epilogue.h. It is bound by memory: a warp reads neighbouring elements
// of D's lines, and each thread has four of them in flight.
#pragma once

#include <cstdint>

#include "base/numbers/types.h"
#include "kernels/epilogue/arithmetic.h"
#include "kernels/ptx/global_memory.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/platform.h"

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
