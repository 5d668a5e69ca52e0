// The one place where a status inside the server becomes a gRPC status.
#pragma once

#include "absl/status/status.h"
#include "gemmd/v1/matrix.pb.h"
#include "grpcpp/grpcpp.h"

namespace gemmd {

// Returns the status that a client is told. Code and message pass through. A bug's message
// (INTERNAL, UNKNOWN) stays in the log under a fresh incident id, which is all the client is told.
absl::Status ToPublic(const absl::Status& status);

// Returns ToPublic() as a call's end. A status with RetryAfterMs() sets grpc-retry-pushback-ms on
// it; what MissingOf() has goes into its details, and that IsDraining().
grpc::Status ToGrpcStatus(const absl::Status& status, grpc::ServerContextBase* context);

// Encodes the operands of MissingOf().
v1::MissingOperands EncodeMissing(const absl::Status& status);

}  // namespace gemmd
