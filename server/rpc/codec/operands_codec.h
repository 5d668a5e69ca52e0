// Between the messages of operands.proto and what the store knows.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "gemmd/v1/operands.pb.h"
#include "grpcpp/support/byte_buffer.h"
#include "proto/payload_codec.h"
#include "server/admission/validation.h"
#include "server/device/host_buffer.h"
#include "server/rpc/codec/decode.h"
#include "server/store/operand_store.h"

namespace gemmd {

// All of these: INVALID_ARGUMENT (or UNIMPLEMENTED) that names the field.
struct UploadBegin {
  Sha256Digest digest{};
  OperandForm form;
  std::optional<StoredAs> as;  // absent: it is kept as it comes
  std::optional<TimeNs> lease;
};
absl::StatusOr<UploadBegin> DecodeBegin(const v1::UploadRequest::Begin& wire,
                                        const RequestLimits& limits);
// The pieces are those of `payload`.
absl::StatusOr<UploadChunk> DecodeUploadChunk(const v1::Chunk& wire, const PayloadViews& payload);

// The key of a request with `oneof which { handle, digest, name }`.
template <typename Request>
absl::StatusOr<OperandKey> DecodeKey(const Request& request) {
  return MakeKey({}, request.handle(), request.digest(), request.name());
}

v1::Operand EncodeForm(const OperandForm& form);
v1::ResidentOperand EncodeInfo(const StoredInfo& info);
v1::ByteRange EncodeRange(const MissingRange& range);
void EncodeDuration(TimeNs duration, google::protobuf::Duration* wire);

// A serialized DownloadResponse with `bytes` of the plane from `offset` on, which are the
// plane's own memory.
grpc::ByteBuffer EncodeDownloadChunk(PlaneName plane, const HostBuffer& memory,
                                     std::uint64_t offset, std::uint64_t bytes);

// Page tokens are numbers in hexadecimal. INVALID_ARGUMENT: it is none of ours.
std::string EncodePageToken(std::uint64_t last);
absl::StatusOr<std::uint64_t> DecodePageToken(const std::string& token);

}  // namespace gemmd
