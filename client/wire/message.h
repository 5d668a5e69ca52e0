// Messages as gRPC carries them, around payload that stays where it is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/wire/codec.h"
#include "gemmd/v1/gemm.pb.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"
#include "proto/payload_codec.h"

namespace gemmd::client {

// Reads what was received: the payload is views of the slices, which must outlive it. False
// where the bytes are no such message.
template <typename Message>
bool DumpAndParse(const grpc::ByteBuffer& bytes, std::vector<grpc::Slice>& slices, Message& message,
                  PayloadViews& payload) {
  if (!bytes.Dump(&slices).ok()) return false;
  std::vector<absl::string_view> pieces;
  pieces.reserve(slices.size());
  for (const grpc::Slice& slice : slices) {
    pieces.emplace_back(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return ParseAroundPayload(pieces, &message, &payload);
}

// Slices one after another, those of planes where their bytes are.
class MessageWriter {
 public:
  void Append(absl::string_view text) {
    pending_.append(text.data(), text.size());
    size_ += text.size();
  }
  void Append(MessageWriter other);
  // Refers to part of the plane, which lives as long as gRPC needs it.
  void Append(const Bytes& bytes, std::uint64_t offset, std::uint64_t size);
  std::uint64_t size() const { return size_; }
  grpc::ByteBuffer Finish() &&;

 private:
  void Flush();

  std::uint64_t size_ = 0;
  std::string pending_;
  std::vector<grpc::Slice> slices_;
};

// The request as one message; may be sent several times. INVALID_ARGUMENT where it would pass
// the 2 GiB that a server's protobuf can read.
absl::StatusOr<grpc::ByteBuffer> UnaryMessage(const EncodedMatmul& request);

}  // namespace gemmd::client
