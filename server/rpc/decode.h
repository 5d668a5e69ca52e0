// From the wire's messages to calls.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gemmd/v1/admin.pb.h"
#include "gemmd/v1/gemm.pb.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/admission/matmul_call.h"

namespace gemmd {

// INVALID_ARGUMENT: the bytes are not a message of that type.
absl::Status ParseMessage(const grpc::ByteBuffer& bytes, google::protobuf::Message* message);

// INVALID_ARGUMENT: an enum has a value this server does not know, or a type is missing.
// The call's payload views `request`, which must outlive it.
absl::StatusOr<MatmulCall> DecodeMatmul(const v1::MatmulRequest& request);

// A call with tightly packed row-major operands of that shape and no payload.
// INVALID_ARGUMENT as above, and for a shape that is not 1 .. 2^31 - 1.
absl::StatusOr<MatmulCall> DecodeShape(const v1::ProblemShape& shape);

}  // namespace gemmd
