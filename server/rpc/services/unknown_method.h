// Calls of methods that no service has.
#pragma once

#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/grpcpp.h"
#include "server/rpc/calls/refused_call.h"

namespace gemmd {

// Answers UNIMPLEMENTED, as gRPC would, but counts the calls that live among their connection's:
// opened and reset fast enough, they fill memory like any other.
class UnknownMethod final : public grpc::CallbackGenericService {
 public:
  // The watch outlives the service.
  explicit UnknownMethod(CallWatch* watch) : watch_(watch) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    return new RefusedCall(watch_, context,
                           {grpc::StatusCode::UNIMPLEMENTED, "the server has no such method"});
  }

 private:
  CallWatch* const watch_;
};

}  // namespace gemmd
