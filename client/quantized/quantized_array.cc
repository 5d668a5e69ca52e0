#include "client/quantized/quantized_array.h"

#include <cstring>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/math.h"
#include "base/numbers/quant/elements.h"

namespace gemmd::client {
namespace {

// Returns the format of scales, zero points or offsets of that type, as matrix.proto has it.
MatrixFormat BlocksFormat(const QuantizedArray& array, DataType type) {
  const Scaling& scaling = array.format.scaling;
  auto lines =
      static_cast<std::uint64_t>(scaling.line_blocks(static_cast<std::int64_t>(array.lines())));
  auto blocks = static_cast<std::uint64_t>(scaling.k_blocks(static_cast<std::int64_t>(array.k())));
  MatrixFormat format;
  format.type = type;
  if (array.is_tiled()) {
    lines = RoundUp(lines, 128);
    blocks = RoundUp(blocks, 4);
  } else if (array.k_axis == KAxis::kRows) {
    format.order = Order::kColumnMajor;
  }
  format.rows = array.k_axis == KAxis::kRows ? blocks : lines;
  format.columns = array.k_axis == KAxis::kRows ? lines : blocks;
  return format;
}

// One scale, or one for each line.
MatrixFormat LinesFormat(const QuantizedArray& array, DataType type, Side side) {
  MatrixFormat format;
  format.type = type;
  format.rows = format.columns = 1;
  if (array.format.scaling.block_lines != kWhole) {
    (side == Side::kA ? format.rows : format.columns) = array.lines();
  }
  return format;
}

}  // namespace

QuantizedView QuantizedArray::view() const {
  QuantizedView view;
  view.format = format;
  view.lines = static_cast<std::int64_t>(lines());
  view.k = static_cast<std::int64_t>(k());
  view.codes = codes.view().data();
  view.line_stride = view.k;
  view.scales = scales.view().data();
  view.zero_points = format.scaling.has_zero_points ? zero_points.view().data() : nullptr;
  view.offsets = format.scaling.has_offsets ? offsets.view().data() : nullptr;
  view.tensor_scale = tensor_scale;
  return view;
}

absl::Status CheckKAxis(const QuantizedArray& array, KAxis k_axis) {
  if (array.k_axis == k_axis || array.fits_both_axes()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      array.rows, " x ", array.columns, " ", array.format_name, " was quantized along axis ",
      static_cast<int>(array.k_axis), ", and K of this product is axis ", static_cast<int>(k_axis),
      "; axis 1 is K of A, and of B transposed, axis 0 of the others"));
}

OperandPlanes PlanesOf(const QuantizedArray& array, Side side) {
  const Scaling& scaling = array.format.scaling;
  const bool has_blocks = scaling.block_k != kWhole;
  const auto format = [&](DataType type) {
    return has_blocks ? BlocksFormat(array, type) : LinesFormat(array, type, side);
  };
  OperandPlanes planes;
  planes.data = {array.format.element, array.rows, array.columns};
  if (array.k_axis == KAxis::kRows) planes.data.order = Order::kColumnMajor;
  planes.scales = format(scaling.type);
  if (scaling.has_zero_points) {
    const bool is_signed = RangeOf(array.format.element).lowest < 0;
    planes.zero_points = format(is_signed ? DataType::kInt8 : DataType::kUint8);
  }
  if (scaling.has_tensor_scale) planes.tensor_scale = MatrixFormat{DataType::kF32, 1, 1};
  if (scaling.has_offsets) planes.offsets = format(scaling.type);
  if (has_blocks) {
    planes.blocks = BlockScaling{scaling.block_k, scaling.block_lines, array.is_tiled()};
  }
  return planes;
}

absl::StatusOr<InlineOperand> ToOperand(const QuantizedArray& array, Side side) {
  const OperandPlanes planes = PlanesOf(array, side);
  absl::StatusOr<Matrix> data = Matrix::Create(planes.data, array.codes);
  if (!data.ok()) return data.status();
  absl::StatusOr<Matrix> scales = Matrix::Create(planes.scales, array.scales);
  if (!scales.ok()) return scales.status();
  InlineOperand operand(*std::move(data), *std::move(scales));
  operand.blocks = planes.blocks;
  operand.k_order = array.k_order;
  if (planes.zero_points) {
    absl::StatusOr<Matrix> made = Matrix::Create(*planes.zero_points, array.zero_points);
    if (!made.ok()) return made.status();
    operand.zero_points = *std::move(made);
  }
  if (planes.tensor_scale) {
    std::string bytes(sizeof array.tensor_scale, '\0');
    std::memcpy(bytes.data(), &array.tensor_scale, bytes.size());
    absl::StatusOr<Matrix> made = Matrix::Create(*planes.tensor_scale, std::move(bytes));
    if (!made.ok()) return made.status();
    operand.tensor_scale = *std::move(made);
  }
  if (planes.offsets) {
    absl::StatusOr<Matrix> made = Matrix::Create(*planes.offsets, array.offsets);
    if (!made.ok()) return made.status();
    operand.offsets = *std::move(made);
  }
  return operand;
}

absl::StatusOr<Matrix> Dequantize(const QuantizedArray& array) {
  const MatrixFormat format{DataType::kF32, array.rows, array.columns};
  const absl::StatusOr<std::uint64_t> size = SizeBytes(format);
  if (!size.ok()) return size.status();
  std::string bytes(*size, '\0');
  const QuantizedView view = array.view();
  const bool k_is_rows = array.k_axis == KAxis::kRows;
  for (std::uint64_t line = 0; line < array.lines(); ++line) {
    for (std::uint64_t i = 0; i < array.k(); ++i) {
      const auto value = static_cast<float>(
          view.value(static_cast<std::int64_t>(line), static_cast<std::int64_t>(i)));
      const std::uint64_t k = array.k_order == nullptr ? i : (*array.k_order)[i];
      const std::uint64_t at = k_is_rows ? k * array.columns + line : line * array.columns + k;
      std::memcpy(bytes.data() + at * sizeof value, &value, sizeof value);
    }
  }
  return Matrix::Create(format, std::move(bytes));
}

}  // namespace gemmd::client
