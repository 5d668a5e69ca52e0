#include "absl/strings/str_cat.h"
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

// Whether scales of this shape could be one for each row, or for each column, of the data or
// of its transpose.
bool FitsScales(const MatrixLayout& data, const MatrixLayout& scales) {
  if (scales.rows != 1 && scales.columns != 1) return false;
  const std::int64_t count = scales.rows * scales.columns;
  return count == 1 || count == data.rows || count == data.columns;
}

bool MayHaveScales(DataType type) {
  return type == DataType::kInt8 || type == DataType::kFp8E4M3 || type == DataType::kFp8E5M2;
}

}  // namespace

absl::StatusOr<OperandForm> ValidateUpload(const OperandSpec& operand,
                                           const RequestLimits& limits) {
  if (operand.source != Source::kInline) {
    return InvalidArgumentError("begin.operand has a source; an upload brings the bytes itself");
  }
  if (operand.has_zero_points) {
    return absl::UnimplementedError(
        "begin.operand.zero_points is set: this server's quantized types are symmetric");
  }
  const DataType type = operand.data.type;
  if (type == DataType::kMxfp8E4M3 || type == DataType::kInt4 || type == DataType::kE8M0) {
    return absl::UnimplementedError(
        StrCat("begin.operand.data.type is ", Name(type), ", which this server does not keep yet"));
  }
  OperandForm form;
  const absl::StatusOr<MatrixLayout> data =
      ValidatePlane("begin.operand.data", operand.data, limits);
  if (!data.ok()) return data.status();
  if (absl::Status s = CheckTight("begin.operand.data", *data); !s.ok()) return s;
  form.data = *data;
  // Neither factor is over 2^31, nor an element over 8 bytes, so that this does not overflow.
  const auto bytes = static_cast<unsigned __int128>(data->rows) *
                     static_cast<unsigned __int128>(data->columns) *
                     static_cast<unsigned __int128>(SizeBits(type)) / 8;
  if (bytes > limits.request_bytes) {
    return InvalidArgumentError(StrCat("begin.operand.data is ", data->rows, " x ", data->columns,
                                       " ", Name(type), "; an operand may have ",
                                       limits.request_bytes, " bytes"));
  }
  if (!operand.scales.has_value()) return form;
  const absl::StatusOr<MatrixLayout> scales =
      ValidatePlane("begin.operand.scales", *operand.scales, limits);
  if (!scales.ok()) return scales.status();
  if (absl::Status s = CheckTight("begin.operand.scales", *scales); !s.ok()) return s;
  if (!MayHaveScales(type)) {
    return InvalidArgumentError(StrCat("begin.operand.scales is set, and the data's type is ",
                                       Name(type),
                                       "; only int8, fp8_e4m3 and fp8_e5m2 have scales"));
  }
  if (scales->type != DataType::kF32) {
    return InvalidArgumentError(
        StrCat("begin.operand.scales.type is ", Name(scales->type), "; it must be f32"));
  }
  if (!FitsScales(*data, *scales)) {
    return InvalidArgumentError(
        StrCat("begin.operand.scales is ", scales->rows, " x ", scales->columns,
               "; it must be 1 x 1, or have one for each row or each column of ", data->rows, " x ",
               data->columns));
  }
  form.scales = *scales;
  return form;
}

}  // namespace gemmd
