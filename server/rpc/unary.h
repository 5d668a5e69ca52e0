// Unary calls over raw bytes. gRPC's own parsing answers malformed bytes with
// UNIMPLEMENTED; parsing here makes it INVALID_ARGUMENT.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/grpcpp.h"
#include "server/rpc/decode.h"
#include "server/rpc/status.h"

namespace gemmd {

// Answers with handler(const Request&), an absl::StatusOr<Response>, which must not block.
template <typename Request, typename Handler>
grpc::ServerUnaryReactor* HandleUnary(grpc::CallbackServerContext* context,
                                      const grpc::ByteBuffer* bytes, grpc::ByteBuffer* answer,
                                      Handler handler) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  Request request;
  absl::Status status = ParseMessage(*bytes, &request);
  if (status.ok()) {
    auto response = handler(request);
    status = response.status();
    if (response.ok()) {
      const grpc::Slice slice(response->SerializeAsString());
      *answer = grpc::ByteBuffer(&slice, 1);
    }
  }
  reactor->Finish(ToGrpcStatus(status, context));
  return reactor;
}

inline grpc::Status NotBuilt(const char* method) {
  return {grpc::StatusCode::UNIMPLEMENTED, absl::StrCat(method, " is not built yet")};
}

inline grpc::ServerUnaryReactor* RefuseUnary(grpc::CallbackServerContext* context,
                                             const char* method) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(NotBuilt(method));
  return reactor;
}

// Reactor is one of gRPC's streaming server reactors over ByteBuffer.
template <typename Reactor>
Reactor* RefuseStream(const char* method) {
  class Refusal final : public Reactor {
   public:
    explicit Refusal(const char* name) { this->Finish(NotBuilt(name)); }
    void OnDone() override { delete this; }
  };
  return new Refusal(method);
}

}  // namespace gemmd
