#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/admission/quantization.h"
#include "server/admission/validation.h"

namespace gemmd {
namespace {

using absl::InvalidArgumentError;
using absl::StrCat;

absl::Status CheckTight(absl::string_view field, const MatrixLayout& layout) {
  if (layout.leading_dimension == layout.inner()) return absl::OkStatus();
  return InvalidArgumentError(StrCat(field, ".leading_dimension is ", layout.leading_dimension,
                                     "; it must be ", layout.inner(),
                                     " or 0: uploaded planes are tightly packed"));
}

// A plane that scales, in its place of the form. A later check compares it with the data.
absl::Status Take(const std::string& field, const std::optional<PlaneSpec>& plane,
                  const RequestLimits& limits, std::optional<MatrixLayout>* to) {
  if (!plane.has_value()) return absl::OkStatus();
  const absl::StatusOr<MatrixLayout> layout = ValidatePlane(field, *plane, limits);
  if (!layout.ok()) return layout.status();
  *to = *layout;
  return CheckTight(field, *layout);
}

// Neither factor is over 2^31, nor an element over 64 bits, so that this does not overflow.
unsigned __int128 WideBytes(const MatrixLayout& layout) {
  const auto bits = static_cast<unsigned __int128>(layout.rows) *
                    static_cast<unsigned __int128>(layout.columns) *
                    static_cast<unsigned __int128>(SizeBits(layout.type));
  return (bits + 7) / 8;
}

absl::Status CheckOrder(const std::string& field, const OperandSpec& operand,
                        const UploadScaling& scaling) {
  if (operand.k_order == nullptr) return absl::OkStatus();
  if (!operand.blocks.has_value()) {
    return InvalidArgumentError(StrCat(field, ".k_order is set, and ", field,
                                       ".quantization is missing; orders are of blocks along K"));
  }
  // Blocks that are as long along both dimensions leave open which one K is: a product says.
  const bool may_be_rows = operand.blocks->block_k == operand.blocks->block_lines &&
                           operand.k_order->size() == operand.data.rows;
  return CheckKOrder(
      StrCat(field, ".k_order"), *operand.k_order,
      scaling.k_is_columns && !may_be_rows ? operand.data.columns : operand.data.rows);
}

}  // namespace

absl::StatusOr<OperandForm> ValidateUpload(const OperandSpec& operand, const RequestLimits& limits,
                                           const std::string& field) {
  if (operand.source != Source::kInline) {
    return InvalidArgumentError(StrCat(field, " has a source; an upload brings the bytes itself"));
  }
  const DataType type = operand.data.type;
  if (type == DataType::kMxfp8E4M3) {
    return absl::UnimplementedError(StrCat(field, ".data.type is mxfp8_e4m3: say fp8_e4m3 with ",
                                           field, ".scales of e8m0 and ", field,
                                           ".quantization.block_k 32, which is the same"));
  }
  if (type == DataType::kE8M0) {
    return InvalidArgumentError(StrCat(field, ".data.type is e8m0, which only scales may be"));
  }
  OperandForm form;
  const absl::StatusOr<MatrixLayout> data =
      ValidatePlane(StrCat(field, ".data"), operand.data, limits);
  if (!data.ok()) return data.status();
  if (absl::Status s = CheckTight(StrCat(field, ".data"), *data); !s.ok()) return s;
  form.data = *data;
  form.blocks = operand.blocks;
  form.k_order = operand.k_order;
  for (absl::Status s :
       {Take(StrCat(field, ".scales"), operand.scales, limits, &form.scales),
        Take(StrCat(field, ".zero_points"), operand.zero_points, limits, &form.zero_points),
        Take(StrCat(field, ".tensor_scale"), operand.tensor_scale, limits, &form.tensor_scale),
        Take(StrCat(field, ".offsets"), operand.offsets, limits, &form.offsets)}) {
    if (!s.ok()) return s;
  }
  const absl::StatusOr<UploadScaling> scaling = CheckUploadScaling(field, operand);
  if (!scaling.ok()) return scaling.status();
  if (absl::Status s = CheckOrder(field, operand, *scaling); !s.ok()) return s;
  for (const PlaneName name : kPlaneNames) {
    const MatrixLayout* const plane = form.plane(name);
    if (plane == nullptr || WideBytes(*plane) <= limits.request_bytes) continue;
    return InvalidArgumentError(StrCat(field, ".", Name(name), " is ", plane->rows, " x ",
                                       plane->columns, " ", Name(plane->type),
                                       "; a plane may have ", limits.request_bytes, " bytes"));
  }
  return form;
}

absl::StatusOr<StoredAs> ValidateStoredForm(const OperandForm& sent, const OperandSpec& stored,
                                            const RequestLimits& limits) {
  const std::string field = "begin.stored_form";
  absl::StatusOr<OperandForm> form = ValidateUpload(stored, limits, field);
  if (!form.ok()) return form.status();
  if (stored.k_order != nullptr) {
    return InvalidArgumentError(
        StrCat(field, ".k_order is set; what is quantized here keeps its order"));
  }
  const DataType from = sent.data.type;
  if (from != DataType::kF32 && from != DataType::kF16 && from != DataType::kBf16) {
    return InvalidArgumentError(StrCat(field, " is set, and begin.operand.data.type is ",
                                       Name(from), "; only f32, f16 and bf16 are quantized"));
  }
  if (!form->scales.has_value()) {
    return InvalidArgumentError(StrCat(field, ".scales is missing; it says what of ", field,
                                       ".data is quantized together"));
  }
  if (form->data.rows != sent.data.rows || form->data.columns != sent.data.columns ||
      form->data.order != sent.data.order) {
    return InvalidArgumentError(StrCat(field, ".data is ", form->data.rows, " x ",
                                       form->data.columns, " ", Name(form->data.order),
                                       "; it must be as begin.operand.data, ", sent.data.rows,
                                       " x ", sent.data.columns, " ", Name(sent.data.order)));
  }
  const absl::StatusOr<UploadScaling> scaling = CheckUploadScaling(field, stored);
  if (!scaling.ok()) return scaling.status();
  StoredAs as;
  as.format = {form->data.type, scaling->scaling};
  as.k_is_columns = scaling->k_is_columns;
  as.form = *std::move(form);
  return as;
}

}  // namespace gemmd
