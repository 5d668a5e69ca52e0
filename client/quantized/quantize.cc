#include "client/quantized/quantize.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/numbers/quant/elements.h"
#include "base/numbers/quant/packed_codes.h"
#include "base/process/cpu_share.h"

namespace gemmd::client {
namespace {

// Every value, row by row.
absl::StatusOr<std::vector<float>> ValuesOf(const MatrixView& matrix) {
  const MatrixFormat& format = matrix.format();
  const DataType type = format.type;
  if (type != DataType::kF32 && type != DataType::kF16 && type != DataType::kBf16) {
    return absl::InvalidArgumentError(
        absl::StrCat(ToString(format), ": f32, f16 and bf16 are accepted"));
  }
  if (format.has_no_elements()) {
    return absl::InvalidArgumentError(absl::StrCat(ToString(format), ": it has no elements"));
  }
  const int bits = SizeBits(type);
  const bool is_row_major = format.order == Order::kRowMajor;
  const std::uint64_t row_step = is_row_major ? format.stride() : 1;
  const std::uint64_t column_step = is_row_major ? 1 : format.stride();
  std::vector<float> values;
  values.reserve(format.rows * format.columns);
  for (std::uint64_t row = 0; row < format.rows; ++row) {
    for (std::uint64_t column = 0; column < format.columns; ++column) {
      const std::uint64_t index = row * row_step + column * column_step;
      if (type == DataType::kF32) {
        float value = 0;
        std::memcpy(&value, matrix.bytes().data() + index * sizeof value, sizeof value);
        values.push_back(value);
      } else {
        values.push_back(static_cast<float>(DecodeElement(
            type, LoadCode(matrix.bytes().data(), bits, static_cast<std::int64_t>(index)))));
      }
    }
  }
  return values;
}

// Characters that are inserted, left out or replaced to make one text of the other (Levenshtein).
std::size_t ChangesBetween(absl::string_view a, absl::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (const char of_a : a) {
    std::size_t diagonal = row[0]++;
    for (std::size_t i = 0; i < b.size(); ++i) {
      const std::size_t replaced = diagonal + (of_a == b[i] ? 0 : 1);
      diagonal = row[i + 1];
      row[i + 1] = std::min({replaced, row[i] + 1, diagonal + 1});
    }
  }
  return row.back();
}

Bytes ToBytes(std::vector<std::uint8_t> plane) {
  const auto owner = std::make_shared<const std::vector<std::uint8_t>>(std::move(plane));
  return {owner, absl::string_view(reinterpret_cast<const char*>(owner->data()), owner->size())};
}

}  // namespace

std::string UnknownFormat(absl::string_view name) {
  constexpr std::size_t kMost = 4;
  std::vector<absl::string_view> meant;
  for (const NamedFormat& each : QuantFormats()) {
    if (absl::StartsWith(each.name, name)) meant.push_back(each.name);
  }
  const std::size_t most_changes = std::max<std::size_t>(1, name.size() / 4);
  for (const NamedFormat& each : QuantFormats()) {
    if (meant.size() < kMost && !absl::StartsWith(each.name, name) &&
        ChangesBetween(each.name, name) <= most_changes) {
      meant.push_back(each.name);
    }
  }
  if (name.empty()) meant.clear();
  if (meant.size() > kMost) meant.resize(kMost);
  return absl::StrCat("format '", name, "': ",
                      meant.empty() ? "there is none;"
                                    : absl::StrCat("is ", absl::StrJoin(meant, " or "), " meant?"),
                      " docs/quantization.md has all ", QuantFormats().size(), " names");
}

absl::StatusOr<QuantFormat> FormatOf(const QuantizeRequest& request) {
  const QuantFormat* const found = FindQuantFormat(request.format);
  if (found == nullptr) {
    return absl::InvalidArgumentError(UnknownFormat(request.format));
  }
  QuantFormat format = *found;
  if (!HasRule(format, request.options.scale_rule)) {
    return absl::InvalidArgumentError(
        request.options.scale_rule == ScaleRule::kRoundUp
            ? absl::StrCat("scale rule round-up: it is of e8m0 scales; those of ", request.format,
                           " are ", Name(format.scaling.type))
            : absl::StrCat("scale rule full-range: it is of int8, int4 and iq4-nl formats without "
                           "zero points and offsets, not of ",
                           request.format));
  }
  if (!request.is_tiled) return format;
  if (SizeBits(format.scaling.type) != 8) {
    return absl::InvalidArgumentError(
        absl::StrCat("scale layout blocked-128x4: scales of ", request.format, " are ",
                     Name(format.scaling.type), "; tiles are of e8m0 and fp8_e4m3 alone"));
  }
  format.scaling.order = ScaleOrder::kTiles128x4;
  return format;
}

absl::Status Check(const QuantizeRequest& request) { return FormatOf(request).status(); }

absl::StatusOr<QuantizedArray> QuantizeMatrix(const MatrixView& matrix,
                                              const QuantizeRequest& request) {
  const absl::StatusOr<QuantFormat> format = FormatOf(request);
  if (!format.ok()) return format.status();
  const absl::StatusOr<std::vector<float>> values = ValuesOf(matrix);
  if (!values.ok()) return values.status();

  QuantizedArray array;
  array.format_name = request.format;
  array.format = *format;
  array.rows = matrix.format().rows;
  array.columns = matrix.format().columns;
  array.k_axis = request.k_axis;
  RealView real;
  real.data = values->data();
  real.lines = static_cast<std::int64_t>(array.lines());
  real.k = static_cast<std::int64_t>(array.k());
  const auto columns = static_cast<std::int64_t>(array.columns);
  const bool k_is_rows = request.k_axis == KAxis::kRows;
  real.line_stride = k_is_rows ? 1 : columns;
  real.k_stride = k_is_rows ? columns : 1;
  real.lines_are_columns = k_is_rows;
  QuantizeOptions options = request.options;
  options.threads = UsableCpus();
  absl::StatusOr<QuantizedMatrix> made = Quantize(*format, real, options);
  if (!made.ok()) return made.status();
  array.codes = ToBytes(std::move(made->codes));
  array.scales = ToBytes(std::move(made->scales));
  array.zero_points = ToBytes(std::move(made->zero_points));
  array.offsets = ToBytes(std::move(made->offsets));
  array.tensor_scale = made->tensor_scale;
  return array;
}

absl::StatusOr<Matrix> ToF32(const MatrixView& matrix) {
  const absl::StatusOr<std::vector<float>> values = ValuesOf(matrix);
  if (!values.ok()) return values.status();
  const MatrixFormat format{DataType::kF32, matrix.format().rows, matrix.format().columns};
  std::string bytes(values->size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values->data(), bytes.size());
  return Matrix::Create(format, std::move(bytes));
}

}  // namespace gemmd::client
