// The parameters of a batch of small products.
#pragma once

#include <cstdint>

#include "base/numbers/types.h"
#include "kernels/ptx/platform.h"

namespace gemmd::hopper::small {
inline namespace GEMMD_BACKEND {

// An operand as lines x K: A's rows or B's columns. Strides are in elements.
struct OperandLines {
  std::int64_t line_stride;
  std::int64_t k_stride;
  std::int32_t lines;
};

// Where the planes of one product lie.
struct ProductPlanes {
  const void* a;
  const void* b;
  const void* c;     // null: none
  const void* bias;  // N elements; null: none
  void* d;
};

// Products that lie anywhere, in one launch: 5 KiB of parameters.
inline constexpr std::uint32_t kScattered = 128;

struct BatchParams {
  OperandLines a;
  OperandLines b;
  std::int32_t k;
  std::uint32_t row_tiles;  // of a product
  std::uint32_t column_tiles;
  std::uint32_t tiles;        // of all products
  std::int64_t d_row_stride;  // elements
  std::int64_t d_column_stride;
  // D is the sums in the operands' type, and lets four neighbours of a row be stored at once.
  bool stores_fours;
  bool writes_f32;  // of 16-bit operands
  // The epilogue, where there is one.
  bool has_epilogue;
  std::int64_t c_row_stride;
  std::int64_t c_column_stride;
  double alpha;
  double beta;
  Activation activation;
  // planes[0] is the first product's, and the others' lie at these distances in bytes.
  bool is_strided;
  std::int64_t a_step;
  std::int64_t b_step;
  std::int64_t c_step;
  std::int64_t bias_step;
  std::int64_t d_step;
  ProductPlanes planes[kScattered];
};

GEMMD_DEVICE const void* Moved(const void* plane, std::int64_t bytes) {
  return plane == nullptr ? nullptr : static_cast<const char*>(plane) + bytes;
}

GEMMD_DEVICE ProductPlanes PlanesOf(const BatchParams& params, std::uint32_t product) {
  if (!params.is_strided) return params.planes[product];
  ProductPlanes planes = params.planes[0];
  const auto steps = static_cast<std::int64_t>(product);
  planes.a = Moved(planes.a, steps * params.a_step);
  planes.b = Moved(planes.b, steps * params.b_step);
  planes.c = Moved(planes.c, steps * params.c_step);
  planes.bias = Moved(planes.bias, steps * params.bias_step);
  planes.d = static_cast<char*>(planes.d) + steps * params.d_step;
  return planes;
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::small
