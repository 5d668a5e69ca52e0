// The words of base/numbers/types.h as people write them in options and files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/numbers/quant/quant_format.h"
#include "base/numbers/types.h"

namespace gemmd::client {

// A name as options spell it: "gelu_tanh" is "gelu-tanh".
std::string OptionName(absl::string_view name);

// Every type an operand or a result can have (E8M0 belongs to scales alone).
const std::vector<DataType>& MatrixTypes();

// An operand's type, as its name says it: that of its elements ("fp8-e4m3"), or a format of
// base/numbers/quant/README.md, which says what scales them too ("mxfp8-e4m3").
struct OperandType {
  DataType element = DataType::kF32;
  std::optional<QuantFormat> format;
};
absl::StatusOr<OperandType> ParseOperandType(absl::string_view text);

// Takes what Name() or OptionName() gives; INVALID_ARGUMENT lists what is accepted.
absl::StatusOr<DataType> ParseDataType(absl::string_view text);
absl::StatusOr<Order> ParseOrder(absl::string_view text);

}  // namespace gemmd::client
