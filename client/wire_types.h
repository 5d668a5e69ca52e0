// The one conversion between kernels/types.h and the wire's enumerations.
#pragma once

#include "absl/status/statusor.h"
#include "gemmd/v1/gemm.pb.h"
#include "gemmd/v1/matrix.pb.h"
#include "gemmd/v1/receipt.pb.h"
#include "kernels/types.h"

namespace gemmd::client {

v1::DataType ToWire(DataType type);
v1::Order ToWire(Order order);
v1::Activation ToWire(Activation activation);
v1::Determinism ToWire(Determinism determinism);

// INTERNAL for a value that this client does not know: it comes from a server.
absl::StatusOr<DataType> FromWire(v1::DataType type);
absl::StatusOr<Order> FromWire(v1::Order order);

}  // namespace gemmd::client
