#include "client/names.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace gemmd::client {
namespace {

template <typename Word>
absl::StatusOr<Word> Parse(absl::string_view field, absl::string_view text,
                           const std::vector<Word>& words) {
  std::string accepted;
  for (const Word word : words) {
    if (OptionName(text) == OptionName(Name(word))) return word;
    absl::StrAppend(&accepted, accepted.empty() ? "" : ", ", OptionName(Name(word)));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(field, " '", text, "': one of ", accepted, " is accepted"));
}

}  // namespace

std::string OptionName(absl::string_view name) { return absl::StrReplaceAll(name, {{"_", "-"}}); }

const std::vector<DataType>& MatrixTypes() {
  static const auto& types = *[] {
    auto* all = new std::vector<DataType>;
    for (const DataTypeTraits& each : kDataTypes) {
      const bool is_of_matrices =
          each.role == DataTypeRole::kPlain || each.role == DataTypeRole::kCodes;
      if (is_of_matrices) all->push_back(each.type);
    }
    return all;
  }();
  return types;
}

absl::StatusOr<DataType> ParseDataType(absl::string_view text) {
  return Parse("type", text, MatrixTypes());
}

absl::StatusOr<OperandType> ParseOperandType(absl::string_view text) {
  if (const QuantFormat* const format = FindQuantFormat(OptionName(text))) {
    return OperandType{format->element, *format};
  }
  const absl::StatusOr<DataType> type = ParseDataType(text);
  if (type.ok()) return OperandType{*type, std::nullopt};
  return absl::InvalidArgumentError(absl::StrCat(type.status().message(),
                                                 ", or a format such as int8-g128, fp8-e4m3-1x128, "
                                                 "mxfp8-e4m3, mxfp4, nvfp4 or int4-g64-f16-zp"));
}

absl::StatusOr<Order> ParseOrder(absl::string_view text) {
  return Parse<Order>("order", text, {Order::kRowMajor, Order::kColumnMajor});
}

}  // namespace gemmd::client
