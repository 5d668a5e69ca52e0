// Unary calls of bytes, for methods without generated code and messages that no
// generated code would send.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"

namespace gemmd::testing {

struct RawAnswer {
  grpc::Status status;
  std::string bytes;
};

// `method` as "/package.Service/Method".
inline RawAnswer RawUnaryCall(const std::shared_ptr<grpc::Channel>& channel,
                              const std::string& method, const grpc::ByteBuffer& request,
                              grpc_compression_algorithm compression = GRPC_COMPRESS_NONE) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_compression_algorithm(compression);
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

inline RawAnswer RawUnaryCall(const std::shared_ptr<grpc::Channel>& channel,
                              const std::string& method, const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return RawUnaryCall(channel, method, grpc::ByteBuffer(&slice, 1));
}

// A message of many zeros, which takes a mebibyte here.
inline grpc::ByteBuffer ZeroMessage(std::size_t mebibytes) {
  const std::vector<grpc::Slice> slices(mebibytes, grpc::Slice(std::string(1 << 20, '\0')));
  return grpc::ByteBuffer(slices.data(), slices.size());
}

}  // namespace gemmd::testing
