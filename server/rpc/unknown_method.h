// Calls of methods that no service has.
#pragma once

#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/grpcpp.h"
#include "server/rpc/call_watch.h"

namespace gemmd {

// Answers UNIMPLEMENTED, as gRPC would, but counts the calls that live among their connection's:
// opened and reset fast enough, they fill memory like any other.
class UnknownMethod final : public grpc::CallbackGenericService {
 public:
  // The watch outlives the service.
  explicit UnknownMethod(CallWatch* watch) : watch_(watch) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    return new Refusal(watch_, context);
  }

 private:
  class Refusal final : public grpc::ServerGenericBidiReactor, private WatchedCall {
   public:
    Refusal(CallWatch* watch, grpc::GenericCallbackServerContext* context) : watch_(watch) {
      watch_->Add(this, context->peer()).IgnoreError();  // it ends at once
      Finish({grpc::StatusCode::UNIMPLEMENTED, "the server has no such method"});
    }
    void OnDone() override {
      watch_->Remove(this);
      delete this;
    }

   private:
    ~Refusal() override = default;
    TimeNs OnLate(TimeNs /*now*/) override { return kNoDeadline; }

    CallWatch* const watch_;
  };

  CallWatch* const watch_;
};

}  // namespace gemmd
