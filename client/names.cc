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
  static const auto& types = *new std::vector<DataType>{
      DataType::kF64,     DataType::kF32,       DataType::kTf32,  DataType::kF16,
      DataType::kBf16,    DataType::kInt8,      DataType::kInt32, DataType::kFp8E4M3,
      DataType::kFp8E5M2, DataType::kMxfp8E4M3, DataType::kInt4};
  return types;
}

absl::StatusOr<DataType> ParseDataType(absl::string_view text) {
  return Parse("type", text, MatrixTypes());
}

absl::StatusOr<Order> ParseOrder(absl::string_view text) {
  return Parse<Order>("order", text, {Order::kRowMajor, Order::kColumnMajor});
}

}  // namespace gemmd::client
