#include "client/quantized/stored_form.h"

#include "absl/status/status.h"
#include "client/quantized/quantized_array.h"
#include "client/wire/inline_operand.h"
#include "client/wire/wire_types.h"

namespace gemmd::client {

absl::StatusOr<v1::Operand> StoredFormOf(const MatrixFormat& matrix,
                                         const QuantizeRequest& request) {
  if (request.options.scale_rule != ScaleRule::kFloor || request.options.rounding.is_stochastic) {
    return absl::InvalidArgumentError(
        "a server that quantizes rounds to nearest, by the floor rule: other choices are not "
        "taken");
  }
  const absl::StatusOr<QuantFormat> format = FormatOf(request);
  if (!format.ok()) return format.status();
  QuantizedArray array;
  array.format_name = request.format;
  array.format = *format;
  array.rows = matrix.rows;
  array.columns = matrix.columns;
  array.k_axis = request.k_axis;
  const OperandPlanes planes = PlanesOf(array, SideOf(request.k_axis));
  v1::Operand stored;
  SetPlane({planes.data.type, matrix.rows, matrix.columns, matrix.order, 0}, stored.mutable_data());
  SetPlane(planes.scales, stored.mutable_scales());
  if (planes.zero_points) SetPlane(*planes.zero_points, stored.mutable_zero_points());
  if (planes.tensor_scale) SetPlane(*planes.tensor_scale, stored.mutable_tensor_scale());
  if (planes.offsets) SetPlane(*planes.offsets, stored.mutable_offsets());
  if (planes.blocks) SetBlocks(*planes.blocks, stored.mutable_quantization());
  return stored;
}

}  // namespace gemmd::client
