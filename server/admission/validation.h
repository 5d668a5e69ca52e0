// Bad input gets a clear error naming the field, its value and the limit. Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/gemm.h"
#include "server/admission/matmul_call.h"
#include "server/device/stack.h"
#include "server/store/conversion.h"
#include "server/store/operand_form.h"

namespace gemmd {

// Fixed limits: going over one is INVALID_ARGUMENT, whatever the load.
struct RequestLimits {
  std::uint64_t dimension = 2147483647;  // rows, columns or leading dimension of a plane
  std::uint64_t request_bytes = 0;       // all operands and the result together
  std::uint64_t result_bytes = 0;        // of D
};

// A plane as it was sent. INVALID_ARGUMENT: a dimension is out of range.
absl::StatusOr<MatrixLayout> ValidatePlane(absl::string_view field, const PlaneSpec& plane,
                                           const RequestLimits& limits);

// Returns the form that an uploaded operand has. INVALID_ARGUMENT: a plane is malformed, not
// tightly packed, or has more than request_bytes; or scales or zero points do not fit the data.
// UNIMPLEMENTED: a type that is not stored.
absl::StatusOr<OperandForm> ValidateUpload(const OperandSpec& operand, const RequestLimits& limits,
                                           const std::string& field = "begin.operand");
// Returns the form to quantize such an upload to. INVALID_ARGUMENT: what comes is not F32, F16 or
// BF16, or what is to be kept has another shape or order, or no scales; or as ValidateUpload().
absl::StatusOr<StoredAs> ValidateStoredForm(const OperandForm& sent, const OperandSpec& stored,
                                            const RequestLimits& limits);

// Returns the problem that the call's header states; kernels/problem.h has what it promises. Inline
// A and B without elements, because K is 0, give a problem of K = 1 for which InlinePayload makes
// both zero: D is of C and the bias alone, and neither kernel nor device meets an empty matrix.
// INVALID_ARGUMENT: names the field. UNIMPLEMENTED: a part of the contract that is not built.
absl::StatusOr<Problem> ValidateHeader(const MatmulCall& call, const RequestLimits& limits);

// Returns the stack that the call's batch states, of such problems. INVALID_ARGUMENT: names the
// field. UNIMPLEMENTED: a part of the contract that is not built.
// REQUIRES: `problem` is what ValidateHeader() made of the call.
absl::StatusOr<Stack> ValidateBatch(const MatmulCall& call, const Problem& problem,
                                    const RequestLimits& limits);

}  // namespace gemmd
