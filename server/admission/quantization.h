// Checks how operands that were sent are quantized. Pure functions.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/gemm.h"
#include "server/admission/matmul_call.h"

namespace gemmd {

struct OperandUse {
  bool is_a = true;
  bool k_is_columns = true;  // of the data as they lie: A, or B transposed
};

// The scaling that the operand's planes and Quantization state. INVALID_ARGUMENT, naming the field:
// the type goes with no such scales, or a plane does not fit the data.
// REQUIRES: ValidatePlane() took the data.
absl::StatusOr<Scaling> CheckScaling(absl::string_view field, const OperandSpec& operand,
                                     const OperandUse& use);

struct UploadScaling {
  Scaling scaling;
  bool k_is_columns = true;  // of the data
};

// Returns the scaling of an operand that is uploaded, whose use is not known: by the first use
// that fits of A, B, A transposed and B transposed, so that scales of rows x 1 are of rows and
// those of 1 x columns of columns wherever they may be; else what CheckScaling() says of its use as
// A.
absl::StatusOr<UploadScaling> CheckUploadScaling(absl::string_view field,
                                                 const OperandSpec& operand);

}  // namespace gemmd
