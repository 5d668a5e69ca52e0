// The names that the Open Inference Protocol has for element types.
#pragma once

#include <optional>

#include "absl/strings/string_view.h"
#include "base/numbers/types.h"
#include "inference/model_config.pb.h"

namespace gemmd {

// The type that a datatype names: one of FP64, FP32, FP16, BF16, INT8 and INT32. Nothing: another
// name.
std::optional<DataType> DatatypeOf(absl::string_view name);

// Empty: the protocol has no name for it.
absl::string_view DatatypeName(DataType type);

// TYPE_INVALID: the protocol has no value for it.
inference::DataType ConfigTypeOf(DataType type);

}  // namespace gemmd
