// A GEMM that is asked for, as a value. A Config (config.h) says how it would be done.
#pragma once

#include <cstdint>
#include <string>

#include "base/numbers/types.h"

namespace gemmd {

// One plane as it lies in memory. Element (r, c) is at index
// r * leading_dimension + c (row-major) or c * leading_dimension + r (column-major).
struct MatrixLayout {
  DataType type = DataType::kF32;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  Order order = Order::kRowMajor;
  std::int64_t leading_dimension = 0;  // elements; at least inner()

  // The dimension that runs fastest, and the number of its lines.
  std::int64_t inner() const { return order == Order::kRowMajor ? columns : rows; }
  std::int64_t outer() const { return order == Order::kRowMajor ? rows : columns; }

  std::int64_t row_stride() const { return order == Order::kRowMajor ? leading_dimension : 1; }
  std::int64_t column_stride() const { return order == Order::kRowMajor ? 1 : leading_dimension; }

  // Bytes up to and with the last element.
  // REQUIRES: the layout was validated, so that this does not overflow.
  std::uint64_t size_bytes() const {
    const std::uint64_t elements =
        static_cast<std::uint64_t>(outer() - 1) * static_cast<std::uint64_t>(leading_dimension) +
        static_cast<std::uint64_t>(inner());
    return (elements * static_cast<std::uint64_t>(SizeBits(type)) + 7) / 8;
  }
};

// D = activation(alpha * op(A) * op(B) + beta * C + bias), where A and B are the values
// that scales (see Problem) make of what is stored.
struct Epilogue {
  double alpha = 1;
  double beta = 0;        // with 0, C is not read
  bool has_bias = false;  // 1 x N of D's type, added to every row
  Activation activation = Activation::kNone;
};

// The form of a quantized B's planes in a device's memory.
enum class Packing : std::uint8_t {
  kNone,    // as the layouts say
  kStrips,  // kernels/hopper/quant/packed.h
};

// REQUIRES of every Problem that reaches a kernel (server/admission checks them):
//   op(A) is m x k, op(B) is k x n, C and D are m x n, all dimensions positive;
//   every leading dimension is at least the dimension that runs fastest;
//   C has D's type; no size in bytes overflows.
struct Problem {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  MatrixLayout a;  // as stored, before op()
  MatrixLayout b;
  MatrixLayout c;  // meaningful where epilogue.beta is not 0
  MatrixLayout d;
  bool transpose_a = false;
  bool transpose_b = false;
  // Scales and zero points are planes of their own, tightly packed, in the order that the scaling
  // says. Only operands of quantized types have them.
  Scaling a_scaling = Scaling::kNone;
  Scaling b_scaling = Scaling::kNone;
  // A part of a product has the planes of scales of the whole. These are the numbers of lines that
  // the planes were made for, on which the distances between scales depend. 0: M for A, N for B.
  std::int64_t a_scale_lines = 0;
  std::int64_t b_scale_lines = 0;
  // Once B has landed; layouts, order of scales and b_scale_lines stay those that were sent.
  Packing b_packing = Packing::kNone;
  DataType accumulate = DataType::kF32;
  Epilogue epilogue;
  Determinism determinism = Determinism::kBatchInvariant;

  // Strides of op(A)(row, inner) and op(B)(inner, column), in elements.
  std::int64_t a_row_stride() const { return transpose_a ? a.column_stride() : a.row_stride(); }
  std::int64_t a_inner_stride() const { return transpose_a ? a.row_stride() : a.column_stride(); }
  std::int64_t b_inner_stride() const { return transpose_b ? b.column_stride() : b.row_stride(); }
  std::int64_t b_column_stride() const { return transpose_b ? b.row_stride() : b.column_stride(); }

  // Return whether consecutive elements of K are neighbours in memory.
  bool a_is_k_major() const { return (a.order == Order::kRowMajor) != transpose_a; }
  bool b_is_k_major() const { return (b.order == Order::kColumnMajor) != transpose_b; }

  double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
};

// One line, for logs and explanations: "1500x900x1700 f32,f32->f32 kn alpha=2",
// where "kn" says that A is K-major and B is N-major.
std::string ToString(const Problem& problem);

// A problem of this shape with tightly packed row-major operands and defaults
// elsewhere; transposed operands are stored n x k and k x m.
Problem MakeProblem(std::int64_t m, std::int64_t n, std::int64_t k, DataType type,
                    DataType output_type, bool transpose_a = false, bool transpose_b = false);

// The types of D and of the accumulator where the caller does not say. `scaled`: an operand has
// scales, with which D is f32 where it would be int32.
DataType DefaultOutputType(DataType operand_type, bool scaled = false);
DataType DefaultAccumulateType(DataType operand_type);

// The defaults for operands of two types. D goes by B where A alone is quantized, else by A. Sums
// have the type that both operands ask for, or f32 where they differ.
DataType DefaultOutputType(DataType a, DataType b, bool scaled);
DataType DefaultAccumulateType(DataType a, DataType b);

}  // namespace gemmd
