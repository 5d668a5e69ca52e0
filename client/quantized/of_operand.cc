#include "client/quantized/of_operand.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/numbers/quant/packed_codes.h"

namespace gemmd::client {
namespace {

// Returns whether it is such a plane, in whichever order, tightly packed.
bool Fits(const Matrix& plane, const MatrixFormat& wanted) {
  const MatrixFormat& format = plane.format();
  return format.type == wanted.type && format.rows == wanted.rows &&
         format.columns == wanted.columns && format.stride() == format.inner();
}

bool Fits(const std::optional<Matrix>& plane, const std::optional<MatrixFormat>& wanted) {
  return plane.has_value() == wanted.has_value() && (!plane || Fits(*plane, *wanted));
}

bool Fits(const InlineOperand& operand, const OperandPlanes& planes) {
  return Fits(operand.data, planes.data) && Fits(*operand.scales, planes.scales) &&
         Fits(operand.zero_points, planes.zero_points) &&
         Fits(operand.tensor_scale, planes.tensor_scale) && Fits(operand.offsets, planes.offsets);
}

Scaling ScalingOf(const InlineOperand& operand) {
  Scaling scaling;
  scaling.has_scales = true;
  scaling.type = operand.scales->format().type;
  scaling.has_zero_points = operand.zero_points.has_value();
  scaling.has_tensor_scale = operand.tensor_scale.has_value();
  scaling.has_offsets = operand.offsets.has_value();
  if (operand.blocks) {
    constexpr std::uint32_t kMost = 0xffff;  // which no format has
    scaling.block_k = static_cast<std::uint16_t>(std::min(operand.blocks->block_k, kMost));
    scaling.block_lines = static_cast<std::uint16_t>(std::min(operand.blocks->block_lines, kMost));
  } else if (operand.scales->format().rows != 1 || operand.scales->format().columns != 1) {
    scaling.block_lines = 1;
  }
  return scaling;
}

const NamedFormat* FormatOf(const InlineOperand& operand) {
  const DataType element = operand.data.format().type;
  const Scaling scaling = ScalingOf(operand);
  for (const NamedFormat& each : QuantFormats()) {
    if (each.format.element == element && each.format.scaling == scaling) return &each;
  }
  return nullptr;
}

// The bytes of a matrix in the other order.
Bytes Turned(const Matrix& matrix) {
  const MatrixFormat& format = matrix.format();
  const int bits = SizeBits(format.type);
  const auto inner = static_cast<std::int64_t>(format.inner());
  const auto outer = static_cast<std::int64_t>(format.outer());
  std::string turned(matrix.bytes().size(), '\0');
  for (std::int64_t i = 0; i < outer; ++i) {
    for (std::int64_t j = 0; j < inner; ++j) {
      StoreCode(turned.data(), bits, j * outer + i,
                LoadCode(matrix.bytes().data(), bits, i * inner + j));
    }
  }
  return Bytes(std::move(turned));
}

// The bytes of a plane in the order that `wanted` has. A vector lies the same in both; tiles have
// one order alone.
Bytes InOrder(const Matrix& plane, const MatrixFormat& wanted) {
  const bool is_vector = wanted.rows == 1 || wanted.columns == 1;
  if (is_vector || plane.format().order == wanted.order) return plane.shared_bytes();
  return Turned(plane);
}

}  // namespace

absl::StatusOr<QuantizedArray> FromOperand(const InlineOperand& operand) {
  const MatrixFormat& data = operand.data.format();
  if (!operand.scales) {
    return absl::InvalidArgumentError(absl::StrCat(
        "it is ", Name(data.type), " without scales, and a container has a quantized format"));
  }
  const NamedFormat* const named = FormatOf(operand);
  if (named == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("it is ", Name(data.type), " with scales ",
                                                   Name(ScalingOf(operand)),
                                                   ", which no format has a name for"));
  }
  QuantizedArray array;
  array.format_name = named->name;
  array.format = named->format;
  if (operand.blocks && operand.blocks->is_tiled) {
    array.format.scaling.order = ScaleOrder::kTiles128x4;
  }
  array.rows = data.rows;
  array.columns = data.columns;
  const bool lies_along_rows = data.order == Order::kColumnMajor;
  std::optional<OperandPlanes> planes;
  for (const bool k_is_rows : {lies_along_rows, !lies_along_rows}) {
    array.k_axis = k_is_rows ? KAxis::kRows : KAxis::kColumns;
    planes = PlanesOf(array, SideOf(array.k_axis));
    const bool is_k = operand.k_order == nullptr || operand.k_order->size() == array.k();
    if (is_k && Fits(operand, *planes)) break;
    planes.reset();
  }
  if (!planes) {
    return absl::InvalidArgumentError(
        absl::StrCat("its planes are not those of ", named->name, " of ", data.rows, " x ",
                     data.columns, ": its scales are ", ToString(operand.scales->format())));
  }
  array.k_order = operand.k_order;
  array.codes = InOrder(operand.data, planes->data);
  array.scales = InOrder(*operand.scales, planes->scales);
  if (operand.zero_points) array.zero_points = InOrder(*operand.zero_points, *planes->zero_points);
  if (operand.offsets) array.offsets = InOrder(*operand.offsets, *planes->offsets);
  if (operand.tensor_scale) {
    std::memcpy(&array.tensor_scale, operand.tensor_scale->bytes().data(),
                sizeof array.tensor_scale);
  }
  return array;
}

}  // namespace gemmd::client
