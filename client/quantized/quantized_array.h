// A matrix as codes, scales and what else its format has: what QuantizeMatrix() makes, a container
// holds (quantized_file.h), and a product takes. Values; no gRPC.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/numbers/quant/quantize.h"
#include "base/order/k_order.h"
#include "client/bytes.h"
#include "client/matrix.h"
#include "client/wire/inline_operand.h"

namespace gemmd::client {

// The dimension of a matrix that K is. Blocks run along K, so a matrix is quantized for one of
// them: K x N of B has its rows as K; M x K of A, and N x K of B to be transposed, their columns.
enum class KAxis : std::uint8_t { kRows = 0, kColumns = 1 };

// An operand of a product: op(A) is M x K, op(B) is K x N.
enum class Side : std::uint8_t { kA, kB };

// K of that operand's matrix, which is stored transposed or not.
constexpr KAxis KAxisOf(Side side, bool is_transposed) {
  return (side == Side::kA) != is_transposed ? KAxis::kColumns : KAxis::kRows;
}

// Planes are of lines x K elements, K running fastest: row-major where K is the columns, else
// column-major.
//
// Invariant of those that QuantizeMatrix() and the reader of containers make: each plane has
// exactly the bytes that format, rows and columns say; zero points, offsets and a tensor's scale
// are there exactly if the format has them.
struct QuantizedArray {
  std::string format_name;  // of QuantFormats()
  QuantFormat format;       // its scales along K, or in tiles of 128 x 4
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  KAxis k_axis = KAxis::kRows;
  Bytes codes;
  Bytes scales;
  Bytes zero_points;
  Bytes offsets;
  float tensor_scale = 1;
  // Null: K lies in order; else element i of a line is place k_order[i] of K (base/order).
  KOrder k_order;

  std::uint64_t lines() const { return k_axis == KAxis::kRows ? columns : rows; }
  std::uint64_t k() const { return k_axis == KAxis::kRows ? rows : columns; }
  bool is_tiled() const { return format.scaling.order == ScaleOrder::kTiles128x4; }
  // Returns whether K may be either dimension: blocks are as long along both.
  bool fits_both_axes() const { return format.scaling.block_lines == format.scaling.block_k; }
  // Over the bytes of the planes, which must live as long.
  QuantizedView view() const;
};

// INVALID_ARGUMENT: K of that side is the other dimension (for the matrix as it is or transposed).
absl::Status CheckKAxis(const QuantizedArray& array, KAxis k_axis);

// The side whose K lies along that axis: an operand that stays is described as of this side.
inline Side SideOf(KAxis k_axis) { return k_axis == KAxis::kColumns ? Side::kA : Side::kB; }

// The planes of an operand, without their bytes.
struct OperandPlanes {
  MatrixFormat data;
  MatrixFormat scales;
  std::optional<MatrixFormat> zero_points;
  std::optional<MatrixFormat> tensor_scale;
  std::optional<MatrixFormat> offsets;
  std::optional<BlockScaling> blocks;
};

// Reads none of the bytes. The side matters to scales of whole lines alone: they are a column of A
// and a row of B.
OperandPlanes PlanesOf(const QuantizedArray& array, Side side);

// The operand of a product, sharing the bytes.
absl::StatusOr<InlineOperand> ToOperand(const QuantizedArray& array, Side side);

// Returns the values of its elements, each rounded once to f32, in row-major order.
absl::StatusOr<Matrix> Dequantize(const QuantizedArray& array);

}  // namespace gemmd::client
