// An operand's bytes on their way to a server and back: what operands.cc is made of, private
// to it. One attempt each; who calls decides about others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "client/calls/blocking_call.h"
#include "client/operand.h"
#include "client/wire/operand_source.h"
#include "gemmd/v1/operands.pb.h"

namespace gemmd::client {

grpc::ByteBuffer Serialize(const google::protobuf::Message& message);

// INTERNAL: the bytes are no such message.
absl::Status Parse(const grpc::ByteBuffer& bytes, google::protobuf::Message* message);

// Sends one request on the call and takes its one answer.
CallEnd Exchange(BlockingCall& call, const grpc::ByteBuffer& request, grpc::ByteBuffer* answer);

// All of a source's bytes.
std::vector<v1::ByteRange> WholeOf(const OperandSource& source);

// Returns the bytes of all ranges.
std::uint64_t SizeOf(const std::vector<v1::ByteRange>& ranges);

// Returns the ranges in up to `count` parts of about equal bytes, cut between the pieces that are
// hashed.
std::vector<std::vector<v1::ByteRange>> CutRanges(const std::vector<v1::ByteRange>& ranges,
                                                  std::size_t count);

// As Operands::Sent.
using UploadProgress = std::function<void(std::uint64_t)>;

// One stream's part in an upload: Begin(), Send() any number of times, End().
class UploadStream {
 public:
  // `sent`, which may be empty, is told of bytes as they go.
  UploadStream(BlockingCall* call, const UploadProgress& sent) : call_(*call), sent_(sent) {}

  void Begin(const v1::UploadRequest::Begin& begin);
  // The ranges' bytes, from where the source has them, in chunks.
  void Send(const OperandSource& source, const std::vector<v1::ByteRange>& ranges);
  // INVALID_ARGUMENT where bytes are missing still; the server has taken all that was sent.
  CallEnd End(v1::UploadResponse* response);

 private:
  BlockingCall& call_;
  const UploadProgress& sent_;
  // The server may answer before everything is sent: it has the operand, or refuses it.
  bool goes_on_ = true;
};

// Takes the planes. INTERNAL: they are not as the server itself says.
CallEnd Download(BlockingCall& call, const v1::DownloadRequest& request,
                 std::optional<InlineOperand>* operand);

}  // namespace gemmd::client
