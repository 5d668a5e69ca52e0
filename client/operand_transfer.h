// An operand's bytes on their way to a server and back: what operands.cc is made of, private
// to it. One attempt each; who calls decides about others.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "client/blocking_call.h"
#include "client/operand.h"
#include "client/operand_source.h"
#include "gemmd/v1/operands.pb.h"

namespace gemmd::client {

grpc::ByteBuffer Serialize(const google::protobuf::Message& message);

// INTERNAL: the bytes are no such message.
absl::Status Parse(const grpc::ByteBuffer& bytes, google::protobuf::Message* message);

// Sends one request on the call and takes its one answer.
CallEnd Exchange(BlockingCall& call, const grpc::ByteBuffer& request, grpc::ByteBuffer* answer);

// All of a source's bytes.
std::vector<v1::ByteRange> WholeOf(const OperandSource& source);

// Sends the ranges' bytes, from where the source has them, in chunks.
CallEnd Upload(BlockingCall& call, const v1::UploadRequest::Begin& begin,
               const OperandSource& source, const std::vector<v1::ByteRange>& ranges,
               v1::ResidentOperand* resident);

// Takes the planes. INTERNAL: they are not as the server itself says.
CallEnd Download(BlockingCall& call, const v1::DownloadRequest& request,
                 std::optional<InlineOperand>* operand);

}  // namespace gemmd::client
