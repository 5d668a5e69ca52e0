#include "server/store/conversion.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/process/cpu_share.h"

namespace gemmd {
namespace {

// One upload is quantized at a time, beside products and their payload.
constexpr int kPartOfCores = 4;

}  // namespace

absl::Status Convert(const MatrixLayout& from, const char* data, const StoredAs& as,
                     const KeptPlanes& planes) {
  for (const PlaneName each : kPlaneNames) {
    const MatrixLayout* const layout = as.form.plane(each);
    if (layout != nullptr) std::memset(planes[each], 0, layout->size_bytes());
  }
  // From an element to the one in the next row, and in the next column.
  const bool is_row_major = from.order == Order::kRowMajor;
  const std::int64_t row = is_row_major ? from.leading_dimension : 1;
  const std::int64_t column = is_row_major ? 1 : from.leading_dimension;
  RealView real;
  real.data = data;
  real.type = from.type;
  real.lines = as.k_is_columns ? from.rows : from.columns;
  real.k = as.k_is_columns ? from.columns : from.rows;
  real.line_stride = as.k_is_columns ? row : column;
  real.k_stride = as.k_is_columns ? column : row;
  real.lines_are_columns = !as.k_is_columns;
  QuantizedPlanes target;
  target.codes = planes[PlaneName::kData];
  target.line_stride = real.line_stride;  // both are tightly packed
  target.k_stride = real.k_stride;
  target.scales = planes[PlaneName::kScales];
  target.zero_points = planes[PlaneName::kZeroPoints];
  target.offsets = planes[PlaneName::kOffsets];
  QuantizeOptions options;
  options.threads = UsableCpus() / kPartOfCores;
  const absl::StatusOr<float> tensor_scale = QuantizeInto(as.format, real, options, target);
  if (!tensor_scale.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("begin.stored_form: ", tensor_scale.status().message()));
  }
  if (char* const plane = planes[PlaneName::kTensorScale]) {
    std::memcpy(plane, &*tensor_scale, sizeof *tensor_scale);
  }
  return absl::OkStatus();
}

}  // namespace gemmd
