// A quantized matrix of the planes of an operand, as a server gives them back.
#pragma once

#include "absl/status/statusor.h"
#include "client/quantized/quantized_array.h"

namespace gemmd::client {

// Shares planes that lie along K already, and copies others. K is the dimension that the scales
// leave open to no other; where both fit, the one along which the codes lie.
//
// INVALID_ARGUMENT: it has no scales, or is of no format that has a name.
absl::StatusOr<QuantizedArray> FromOperand(const InlineOperand& operand);

}  // namespace gemmd::client
