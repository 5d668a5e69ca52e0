// Decodes the wire's messages into calls.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/digest/sha256.h"
#include "base/time/clock.h"
#include "gemmd/v1/admin.pb.h"
#include "gemmd/v1/gemm.pb.h"
#include "google/protobuf/duration.pb.h"
#include "grpcpp/support/byte_buffer.h"
#include "proto/payload_codec.h"
#include "server/admission/matmul_call.h"

namespace gemmd {

// INVALID_ARGUMENT: the bytes are not a message of that type.
absl::Status ParseMessage(const grpc::ByteBuffer& bytes, google::protobuf::Message* message);
absl::Status MalformedError(const google::protobuf::Message& message);
// Returns the error that says why ParseAroundPayload() refused the message.
absl::Status RefusedError(const google::protobuf::Message& message, const PayloadViews& payload);

// A message as gRPC received it, in pieces. Keeps them as long as it lives.
class ReceivedMessage {
 public:
  explicit ReceivedMessage(const grpc::ByteBuffer& bytes);

  absl::Span<const absl::string_view> pieces() const { return pieces_; }

 private:
  // Destroyed after the slices: where gRPC's memory is short, it crashes if a slice that it
  // received is the last to go, because grpc_slice_unref() of 1.51 has no ExecCtx.
  const grpc::ByteBuffer bytes_;
  std::vector<grpc::Slice> slices_;
  std::vector<absl::string_view> pieces_;
};

// Parses as ParseMessage(), around the payload.
template <typename Message>
absl::Status ParseMessage(const ReceivedMessage& bytes, Message* message, PayloadViews* payload) {
  if (ParseAroundPayload(bytes.pieces(), message, payload)) return absl::OkStatus();
  return RefusedError(*message, *payload);
}

// INVALID_ARGUMENT: an enum has a value this server does not know, or a type is missing.
absl::StatusOr<MatmulCall> DecodeHeader(const v1::MatmulHeader& header);

// Decodes a chunk, whose pieces are those of `payload`. INVALID_ARGUMENT: an enum has a value this
// server does not know.
absl::StatusOr<PayloadChunk> DecodeChunk(const v1::Chunk& chunk, const PayloadViews& payload);

// INVALID_ARGUMENT: an enum has a value this server does not know, a type is missing, or neither
// planes nor a resident operand are named.
absl::StatusOr<OperandSpec> DecodeOperand(absl::string_view field, const v1::Operand& wire);

// The key that a `oneof { handle, digest, name }` says; `prefix` begins the fields' names.
// INVALID_ARGUMENT: none is set, or one is malformed, or longer than any is: it would come back in
// an error's details.
absl::StatusOr<OperandKey> MakeKey(absl::string_view prefix, const std::string& handle,
                                   const std::string& digest, const std::string& name);

// INVALID_ARGUMENT: not 32 bytes.
absl::StatusOr<Sha256Digest> DecodeDigest(absl::string_view field, absl::string_view bytes);

// INVALID_ARGUMENT: negative, malformed, or over a year.
absl::StatusOr<TimeNs> DecodeDuration(absl::string_view field,
                                      const google::protobuf::Duration& wire);

// A call with tightly packed row-major operands of that shape and no payload.
// `field` is the message's name in errors. INVALID_ARGUMENT: an enum has a value this server does
// not know.
absl::StatusOr<MatmulCall> DecodeShape(absl::string_view field, const v1::ProblemShape& shape);

}  // namespace gemmd
