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
// `field` is the message's name in errors. INVALID_ARGUMENT as above.
absl::StatusOr<MatmulCall> DecodeShape(absl::string_view field, const v1::ProblemShape& shape);

}  // namespace gemmd
