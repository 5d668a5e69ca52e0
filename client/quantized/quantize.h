// Real matrices made into operands of quantized products, on this side: what goes over the network
// is what base/numbers/quant/quantize.h makes of them, to the bit.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/numbers/quant/quantize.h"
#include "client/matrix.h"
#include "client/quantized/quantized_array.h"

namespace gemmd::client {

struct QuantizeRequest {
  std::string format;  // a name of base/numbers/quant/README.md: "mxfp8-e4m3"
  KAxis k_axis = KAxis::kRows;
  bool is_tiled = false;    // scales in tiles of 128 x 4; of E8M0 and E4M3 scales alone
  QuantizeOptions options;  // how scales are chosen and elements rounded
};

// Says that there is no such format, and which names are like it.
std::string UnknownFormat(absl::string_view name);

// INVALID_ARGUMENT: the format has no such name, or its scales cannot be tiled.
absl::Status Check(const QuantizeRequest& request);
// The format, with scales along K or in tiles. Errors as Check()'s.
absl::StatusOr<QuantFormat> FormatOf(const QuantizeRequest& request);

// The matrix may be f32, f16 or bf16, whose values f32 holds exactly, in any order and with any
// leading dimension; they do not matter to the result.
//
// INVALID_ARGUMENT: as Check() says, the matrix has another type, or the format cannot hold an
// element; the error names it by row and column.
absl::StatusOr<QuantizedArray> QuantizeMatrix(const MatrixView& matrix,
                                              const QuantizeRequest& request);

// Exactly the same values as f32, row-major and tightly packed. INVALID_ARGUMENT: the type is not
// f32, f16 or bf16.
absl::StatusOr<Matrix> ToF32(const MatrixView& matrix);

}  // namespace gemmd::client
