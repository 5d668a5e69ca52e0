// Unary calls of bytes, for methods without generated code and messages that no
// generated code would send.
#pragma once

#include <memory>
#include <string>

#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"

namespace gemmd::testing {

struct RawAnswer {
  grpc::Status status;
  std::string bytes;
};

// `method` as "/package.Service/Method".
inline RawAnswer RawUnaryCall(const std::shared_ptr<grpc::Channel>& channel,
                              const std::string& method, const std::string& bytes) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
  call->StartCall();
  grpc::ByteBuffer response;
  RawAnswer answer;
  call->Finish(&response, &answer.status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  if (answer.status.ok()) {
    grpc::Slice whole;
    if (response.DumpToSingleSlice(&whole).ok()) {
      answer.bytes.assign(reinterpret_cast<const char*>(whole.begin()), whole.size());
    }
  }
  queue.Shutdown();
  return answer;
}

}  // namespace gemmd::testing
