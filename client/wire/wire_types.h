// Values of this library and the wire's; proto/wire_types.h has the enums.
#pragma once

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/numbers/types.h"
#include "client/matrix.h"
#include "gemmd/v1/gemm.pb.h"
#include "gemmd/v1/matrix.pb.h"
#include "gemmd/v1/receipt.pb.h"
#include "google/protobuf/duration.pb.h"
#include "proto/wire_types.h"  // IWYU pragma: export

namespace gemmd::client {

// INTERNAL for a value that this client does not know: it comes from a server.
absl::StatusOr<DataType> FromWire(v1::DataType type);
absl::StatusOr<Order> FromWire(v1::Order order);

// Whole nanoseconds.
void SetDuration(absl::Duration duration, google::protobuf::Duration* wire);

void SetPlane(const MatrixFormat& format, v1::Plane* plane);
// The format that the wire gives a plane. INTERNAL where this client does not know the type;
// dimensions are not checked.
absl::StatusOr<MatrixFormat> FormatOf(const v1::Plane& plane);

}  // namespace gemmd::client
