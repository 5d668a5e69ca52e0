// The form in which a server takes a tensor of a file of weights: a matrix of the tensor's own
// bytes, or a quantized operand of the same values. A tensor without such a form is refused, and
// the refusal names the closest one. Nothing is rounded.
//
// A matrix is N x K, as torch holds weights: products take it with --transpose-b. Blocks of
// quantized ones run along K. A stack has one form for all of its matrices, which go one by one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "base/numbers/types.h"
#include "client/matrix.h"
#include "client/quantized/quantized_array.h"
#include "client/weights/weight_file.h"

namespace gemmd::client {

struct WeightForm {
  std::string name;                 // "bf16", "int8-g32": as --type spells it
  std::optional<DataType> element;  // of a matrix; absent: a quantized format
  std::uint64_t parts = 0;          // matrices of a stack; 0: it is none
  std::uint64_t rows = 0;           // of each
  std::uint64_t columns = 0;
  std::uint64_t size_bytes = 0;  // of all planes, and of all matrices of a stack
};

// Reads none of the tensor's bytes. INVALID_ARGUMENT says why there is no form.
absl::StatusOr<WeightForm> FormOf(const WeightTensor& tensor);

using WeightOperand = std::variant<Matrix, QuantizedArray>;

// Shares the bytes of a matrix, but for those of FNUZ, which are decoded. INVALID_ARGUMENT: as
// FormOf(), or it is a stack, or a block has no form.
absl::StatusOr<WeightOperand> OperandOf(const WeightTensor& tensor);

}  // namespace gemmd::client
