#include "client/quantized/product_error.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/numbers/quant/elements.h"
#include "base/numbers/quant/packed_codes.h"

namespace gemmd::client {
namespace {

template <typename Stored>
double Load(const char* at) {
  Stored value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<double>(value);
}

bool CanRead(DataType type) {
  return type == DataType::kF64 || type == DataType::kF32 || type == DataType::kF16 ||
         type == DataType::kBf16 || type == DataType::kInt32;
}

double ElementOf(const MatrixView& matrix, std::uint64_t row, std::uint64_t column) {
  const MatrixFormat& format = matrix.format();
  const std::uint64_t index = format.order == Order::kRowMajor ? row * format.stride() + column
                                                               : column * format.stride() + row;
  const char* const data = matrix.bytes().data();
  switch (format.type) {
    case DataType::kF64:
      return Load<double>(data + index * sizeof(double));
    case DataType::kF32:
      return Load<float>(data + index * sizeof(float));
    case DataType::kInt32:
      return Load<std::int32_t>(data + index * sizeof(std::int32_t));
    default:
      return DecodeElement(format.type,
                           LoadCode(data, SizeBits(format.type), static_cast<std::int64_t>(index)));
  }
}

}  // namespace

absl::StatusOr<ProductError> CompareProducts(const MatrixView& d, const MatrixView& full) {
  const MatrixFormat& format = d.format();
  if (format.rows != full.format().rows || format.columns != full.format().columns) {
    return absl::InvalidArgumentError(absl::StrCat("D is ", ToString(format), " and D_full is ",
                                                   ToString(full.format()),
                                                   "; their shapes must be equal"));
  }
  for (const MatrixView& each : {d, full}) {
    if (CanRead(each.format().type)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(ToString(each.format()), ": f64, f32, f16, bf16 and int32 can be compared"));
  }
  ProductError result;
  bool is_finite = true;
  double error_squares = 0;
  double full_squares = 0;
  for (std::uint64_t row = 0; row < format.rows; ++row) {
    for (std::uint64_t column = 0; column < format.columns; ++column) {
      const double one = ElementOf(d, row, column);
      const double other = ElementOf(full, row, column);
      const double error = std::abs(one - other);
      error_squares += error * error;
      full_squares += other * other;
      const bool is_first = row == 0 && column == 0;
      const bool is_bad = !std::isfinite(one) || !std::isfinite(other);
      if (is_finite && (is_bad || is_first || error > result.largest)) {
        result.largest = is_bad ? std::numeric_limits<double>::quiet_NaN() : error;
        result.row = row;
        result.column = column;
        result.d = one;
        result.full = other;
      }
      is_finite = is_finite && !is_bad;
    }
  }
  if (!is_finite) {
    result.relative = std::numeric_limits<double>::quiet_NaN();
  } else if (error_squares > 0) {
    result.relative = std::sqrt(error_squares) / std::sqrt(full_squares);
  }
  return result;
}

}  // namespace gemmd::client
