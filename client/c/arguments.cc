#include "client/c/arguments.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/strip.h"
#include "base/text/operand_name.h"
#include "client/c/handles.h"
#include "client/wire/wire_types.h"

namespace gemmd::client::c {
namespace {

constexpr std::int64_t kYearMs = std::int64_t{365} * 24 * 3600 * 1000;

template <typename Value>
absl::Status Refuse(absl::string_view field, const Value& value, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(field, " is ", value, ": ", why));
}

bool IsPlain(DataType type) {
  switch (type) {
    case DataType::kF64:
    case DataType::kF32:
    case DataType::kF16:
    case DataType::kBf16:
    case DataType::kInt8:
    case DataType::kInt32:
    case DataType::kFp8E4M3:
    case DataType::kFp8E5M2:
      return true;
    default:
      return false;
  }
}

// Order and leading dimension of strides that are not both 0.
absl::Status SetStrides(absl::string_view field, const gemmd_array& array, MatrixFormat& format) {
  for (const auto& [name, stride] : {std::pair(".row_stride", array.row_stride),
                                     std::pair(".column_stride", array.column_stride)}) {
    if (stride < 0) return Refuse(absl::StrCat(field, name), stride, "must be 0 or more");
  }
  const bool one_row = array.rows <= 1;
  const bool one_column = array.columns <= 1;
  if ((array.column_stride == 1 || one_column) && (one_row || array.row_stride >= array.columns) &&
      (one_row || array.row_stride >= 1)) {
    format.leading_dimension = one_row ? 0 : static_cast<std::uint64_t>(array.row_stride);
    return absl::OkStatus();
  }
  if ((array.row_stride == 1 || one_row) && (one_column || array.column_stride >= array.rows) &&
      (one_column || array.column_stride >= 1)) {
    format.order = Order::kColumnMajor;
    format.leading_dimension = one_column ? 0 : static_cast<std::uint64_t>(array.column_stride);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      field, ".row_stride is ", array.row_stride, " and column_stride is ", array.column_stride,
      ": one must be 1, and the other the length of a row or column or more; a copy of the matrix "
      "has such strides"));
}

}  // namespace

absl::Status CheckGiven(absl::string_view field, bool is_given) {
  if (is_given) return absl::OkStatus();
  return Refuse(field, "NULL", "it is needed");
}

absl::Status CheckRange(absl::string_view field, std::int64_t value, std::int64_t least,
                        std::int64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return Refuse(field, value, absl::StrCat("must be ", least, " to ", most));
}

absl::Status CheckSized(absl::string_view field, const void* given, std::size_t first_bytes,
                        std::size_t known_bytes) {
  if (absl::Status s = CheckNotNull(field, given); !s.ok()) return s;
  std::size_t size = 0;
  std::memcpy(&size, given, sizeof(size));
  if (size < first_bytes || size > kMaxStructBytes) {
    return Refuse(absl::StrCat(field, ".size"), size,
                  absl::StrCat("must be ", first_bytes, " to ", kMaxStructBytes,
                               "; the struct's _INIT macro sets it"));
  }
  const char* const bytes = static_cast<const char*>(given);
  if (size > known_bytes &&
      std::any_of(bytes + known_bytes, bytes + size, [](char byte) { return byte != 0; })) {
    return Refuse(
        absl::StrCat(field, ".size"), size,
        absl::StrCat("it has fields that this library does not know, which knows at most ",
                     known_bytes, " bytes"));
  }
  return absl::OkStatus();
}

absl::StatusOr<absl::Duration> DurationOf(absl::string_view field, std::int64_t milliseconds,
                                          absl::Duration otherwise) {
  if (absl::Status s = CheckRange(field, milliseconds, 0, kYearMs); !s.ok()) return s;
  return milliseconds == 0 ? otherwise : absl::Milliseconds(milliseconds);
}

absl::StatusOr<DataType> TypeOf(absl::string_view field, std::int32_t dtype) {
  const std::optional<DataType> type = gemmd::FromWire(static_cast<v1::DataType>(dtype));
  if (type.has_value() && IsPlain(*type)) return *type;
  return Refuse(field, dtype,
                "one of 1 (f64), 2 (f32), 4 (f16), 5 (bf16), 6 (int8), 7 (int32), 8 (fp8_e4m3) and "
                "9 (fp8_e5m2) is accepted");
}

std::int32_t NumberOf(DataType type) { return static_cast<std::int32_t>(ToWire(type)); }

absl::StatusOr<MatrixFormat> FormatOf(absl::string_view field, const gemmd_array* array) {
  if (absl::Status s = CheckSized(field, array); !s.ok()) return s;
  const absl::StatusOr<DataType> type = TypeOf(absl::StrCat(field, ".dtype"), array->dtype);
  if (!type.ok()) return type.status();
  for (const auto& [name, length] :
       {std::pair(".rows", array->rows), std::pair(".columns", array->columns)}) {
    absl::Status s =
        CheckRange(absl::StrCat(field, name), length, 0, static_cast<std::int64_t>(kMaxDimension));
    if (!s.ok()) return s;
  }
  MatrixFormat format;
  format.type = *type;
  format.rows = static_cast<std::uint64_t>(array->rows);
  format.columns = static_cast<std::uint64_t>(array->columns);
  if (array->row_stride != 0 || array->column_stride != 0) {
    if (absl::Status s = SetStrides(field, *array, format); !s.ok()) return s;
  }
  if (const auto size = SizeBytes(format); !size.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " is ", ToString(format), ": ", size.status().message()));
  }
  if (array->data == nullptr && !format.has_no_elements()) {
    return Refuse(absl::StrCat(field, ".data"), "NULL", absl::StrCat("it has ", ToString(format)));
  }
  return format;
}

absl::StatusOr<OperandName> NameOf(absl::string_view field, const char* name) {
  if (absl::Status s = CheckNotNull(field, name); !s.ok()) return s;
  const absl::string_view text = absl::StripPrefix(name, "@");
  OperandName operand = ParseOperandName(text);
  if (operand.digest.empty() && operand.handle.empty()) {
    if (absl::Status s = CheckOperandName(field, text); !s.ok()) return s;
  }
  return operand;
}

OperandName NameOf(const gemmd_matrix& matrix) {
  OperandName name;
  name.format = matrix.format;
  if (matrix.digest.empty()) {
    name.handle = matrix.handle;
  } else {
    name.digest = absl::HexStringToBytes(matrix.digest);
  }
  return name;
}

namespace {

absl::Status CheckOperand(absl::string_view field, const gemmd_operand* operand) {
  if (absl::Status s = CheckSized(field, operand); !s.ok()) return s;
  const int given = (operand->array != nullptr ? 1 : 0) + (operand->matrix != nullptr ? 1 : 0) +
                    (operand->name != nullptr ? 1 : 0);
  if (given == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " has ", given, " of array, matrix and name: it must have one"));
}

}  // namespace

absl::StatusOr<Operand> OperandOf(absl::string_view field, const gemmd_operand* operand,
                                  const Stack& stack, const std::shared_ptr<const void>& owner) {
  if (absl::Status s = CheckOperand(field, operand); !s.ok()) return s;
  if (operand->matrix != nullptr) {
    if (operand->matrix->source.has_value()) return Operand(*operand->matrix->source);
    return Operand(NameOf(*operand->matrix));
  }
  if (operand->name != nullptr) {
    absl::StatusOr<OperandName> name = NameOf(absl::StrCat(field, ".name"), operand->name);
    if (!name.ok()) return name.status();
    return Operand(*std::move(name));
  }
  const absl::StatusOr<MatrixFormat> format =
      FormatOf(absl::StrCat(field, ".array"), operand->array);
  if (!format.ok()) return format.status();
  const absl::StatusOr<std::uint64_t> size = SizeBytes(*format, stack);
  if (!size.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": ", size.status().message()));
  }
  const absl::string_view bytes(static_cast<const char*>(operand->array->data), *size);
  absl::StatusOr<Matrix> matrix = Matrix::Create(*format, stack, Bytes(owner, bytes));
  if (!matrix.ok()) return matrix.status();
  return Operand(InlineOperand(*std::move(matrix)));
}

absl::StatusOr<OperandName> ResidentOf(absl::string_view field, const gemmd_operand* operand) {
  if (absl::Status s = CheckOperand(field, operand); !s.ok()) return s;
  if (operand->array != nullptr) {
    return Refuse(absl::StrCat(field, ".array"), "given",
                  "it must be a matrix that stays on the server, by matrix or name");
  }
  if (operand->matrix != nullptr) return NameOf(*operand->matrix);
  return NameOf(absl::StrCat(field, ".name"), operand->name);
}

}  // namespace gemmd::client::c
