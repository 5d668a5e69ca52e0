#include "client/cli/files/operand_file.h"

#include <variant>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/files/weights_source.h"
#include "client/names.h"
#include "client/npy/npy.h"

namespace gemmd::cli {
namespace {

// Splits "a=VALUE"; a VALUE alone belongs to operand "".
absl::StatusOr<std::pair<std::string, absl::string_view>> Split(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
  if (parts.size() == 1) return std::make_pair(std::string(), text);
  for (const char* operand : {"a", "b", "c", "bias"}) {
    if (parts[0] == operand) return std::make_pair(std::string(operand), parts[1]);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("operand '", parts[0], "': one of a, b, c, bias is accepted"));
}

template <typename Value>
absl::Status Add(absl::string_view text, absl::StatusOr<Value> (*parse)(absl::string_view),
                 std::map<std::string, Value>& values) {
  const auto parts = Split(text);
  if (!parts.ok()) return parts.status();
  absl::StatusOr<Value> value = parse(parts->second);
  if (!value.ok()) return value.status();
  values[parts->first] = *std::move(value);
  return absl::OkStatus();
}

absl::StatusOr<std::pair<std::uint64_t, std::uint64_t>> ParseShape(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, 'x');
  std::pair<std::uint64_t, std::uint64_t> shape;
  if (parts.size() == 2 && absl::SimpleAtoi(parts[0], &shape.first) &&
      absl::SimpleAtoi(parts[1], &shape.second)) {
    return shape;
  }
  return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not ROWSxCOLUMNS"));
}

absl::StatusOr<bool> ParseScaleLayout(absl::string_view text) {
  if (text == "plain") return false;
  if (text == "blocked-128x4") return true;
  return absl::InvalidArgumentError(
      absl::StrCat("scale layout '", text, "': one of plain, blocked-128x4 is accepted"));
}

// A tensor that is a matrix.
Outcome ReadMatrix(const WeightsPath& path, const std::string& operand,
                   std::optional<DataType> asked, std::optional<client::Matrix>& matrix) {
  std::optional<client::WeightOperand> read;
  if (Outcome failure = ReadWeight(path, read)) return failure;
  if (const auto* const array = std::get_if<client::QuantizedArray>(&*read)) {
    return UsageFailure(absl::StrCat(path.file, " has ", array->format_name, " for ", operand,
                                     ", which must be a plain matrix"));
  }
  matrix = std::get<client::Matrix>(*std::move(read));
  if (!asked || *asked == matrix->format().type) return std::nullopt;
  return UsageFailure(absl::StrCat("--type ", operand, "=", Name(*asked), ": ", path.file,
                                   " says its type itself, ", Name(matrix->format().type)));
}

// The operand's own value, else the one for all.
template <typename Value>
std::optional<Value> Find(const std::map<std::string, Value>& values, const std::string& operand) {
  auto found = values.find(operand);
  if (found == values.end()) found = values.find("");
  return found == values.end() ? std::nullopt : std::make_optional(found->second);
}

}  // namespace

absl::Status OperandFormats::AddShape(absl::string_view text) {
  return Add(text, ParseShape, shapes_);
}

absl::Status OperandFormats::AddType(absl::string_view text) {
  return Add(text, client::ParseOperandType, types_);
}

absl::Status OperandFormats::AddOrder(absl::string_view text) {
  return Add(text, client::ParseOrder, orders_);
}

absl::Status OperandFormats::AddScaleLayout(absl::string_view text) {
  return Add(text, ParseScaleLayout, are_tiled_);
}

std::optional<QuantFormat> OperandFormats::Format(const std::string& operand) const {
  const std::optional<client::OperandType> type = Find(types_, operand);
  return type ? type->format : std::nullopt;
}

bool OperandFormats::IsTiled(const std::string& operand) const {
  return Find(are_tiled_, operand).value_or(false);
}

bool OperandFormats::IsRaw(const std::string& operand) const {
  return Find(shapes_, operand).has_value();
}

bool OperandFormats::HasOwn(const std::string& operand) const {
  return shapes_.count(operand) + types_.count(operand) + orders_.count(operand) +
             are_tiled_.count(operand) >
         0;
}

Outcome OperandFormats::Read(const std::string& operand, const std::string& path,
                             std::optional<client::Matrix>& matrix, bool may_be_stack) const {
  const std::optional<client::OperandType> found = Find(types_, operand);
  const std::optional<DataType> type = found ? std::make_optional(found->element) : std::nullopt;
  const std::optional<Shape> shape = Find(shapes_, operand);
  if (!shape && orders_.count(operand) != 0) {
    return UsageFailure(absl::StrCat("--order ", operand,
                                     ": a .npy file has its own order; a raw one needs --shape ",
                                     operand, "=ROWSxCOLUMNS"));
  }
  if (shape && !type) {
    return UsageFailure(absl::StrCat("a raw file needs a type: --type ", operand, "=TYPE"));
  }
  if (!shape) {
    if (const auto weights = FindWeights(path)) return ReadMatrix(*weights, operand, type, matrix);
  }
  absl::StatusOr<client::Matrix> read = absl::UnknownError("");
  if (shape) {
    client::MatrixFormat format;
    format.type = *type;
    format.rows = shape->first;
    format.columns = shape->second;
    format.order = Find(orders_, operand).value_or(Order::kRowMajor);
    read = client::ReadRaw(path, format);
  } else if (operand == "bias") {
    read = client::ReadNpyVector(path, type);
  } else {
    read = may_be_stack ? client::ReadNpyStack(path, type) : client::ReadNpy(path, type);
  }
  if (!read.ok()) return FileFailure(read.status());
  matrix = *std::move(read);
  return std::nullopt;
}

}  // namespace gemmd::cli
