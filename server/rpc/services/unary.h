// Unary calls over raw bytes. gRPC's own parsing answers malformed bytes with
// UNIMPLEMENTED; parsing here makes it INVALID_ARGUMENT.
#pragma once

#include <utility>

#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"
#include "server/rpc/codec/decode.h"
#include "server/rpc/reactors/request_reactor.h"

namespace gemmd {

template <typename Request, typename Handler>
class UnaryReactor final : public RequestReactor {
 public:
  UnaryReactor(CallWatch* watch, grpc::CallbackServerContext* context, Handler handler)
      : RequestReactor(watch, context), handler_(std::move(handler)) {}

 private:
  ~UnaryReactor() override = default;

  void OnMessage(const grpc::ByteBuffer& message) override {
    Request request;
    if (absl::Status s = ParseMessage(message, &request); !s.ok()) return Fail(s);
    const auto response = handler_(request);
    if (!response.ok()) return Fail(response.status());
    const grpc::Slice slice(response->SerializeAsString());
    grpc::ByteBuffer answer(&slice, 1);
    Answer(&answer);
  }

  const Handler handler_;
};

// Answers with handler(const Request&), an absl::StatusOr<Response>, which must not block. It is
// called when the message has come, and may use the context.
template <typename Request, typename Handler>
RequestReactor* HandleUnary(CallWatch* watch, grpc::CallbackServerContext* context,
                            Handler handler) {
  return new UnaryReactor<Request, Handler>(watch, context, std::move(handler));
}

}  // namespace gemmd
