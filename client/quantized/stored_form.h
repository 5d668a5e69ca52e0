// The form that a server is asked to keep a matrix in, for uploads that it quantizes on arrival.
#pragma once

#include "absl/status/statusor.h"
#include "client/matrix.h"
#include "client/quantized/quantize.h"
#include "gemmd/v1/matrix.pb.h"

namespace gemmd::client {

// Describes the planes of such a matrix in the request's format, as Operands::PutAs() takes them.
// The data keep the matrix's order. Servers round to nearest by the floor rule.
//
// INVALID_ARGUMENT: as Check() says; or the request's options ask for anything else.
absl::StatusOr<v1::Operand> StoredFormOf(const MatrixFormat& matrix,
                                         const QuantizeRequest& request);

}  // namespace gemmd::client
