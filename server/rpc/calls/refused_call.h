// Calls that end as soon as they came.
#pragma once

#include "grpcpp/grpcpp.h"
#include "server/rpc/calls/call_watch.h"
#include "server/rpc/calls/caller.h"

namespace gemmd {

// Its client may be slow to take even that, so it counts among its connection's calls.
class RefusedCall final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                          private WatchedCall {
 public:
  // Deletes itself when gRPC is done with it. The watch and the context outlive it.
  RefusedCall(CallWatch* watch, grpc::CallbackServerContext* context, const grpc::Status& status)
      : watch_(watch), context_(context) {
    watch_->Add(this, PeerOf(*context), HeaderBytesOf(*context)).IgnoreError();  // it ends at once
    SetDue(watch_->clock().Now() + progress_limit().window);
    Finish(status);
  }

  void OnDone() override {
    watch_->Remove(this);
    delete this;
  }

 private:
  ~RefusedCall() override = default;

  TimeNs OnLate(TimeNs /*now*/) override {
    context_->TryCancel();
    return kNoDeadline;
  }

  CallWatch* const watch_;
  grpc::CallbackServerContext* const context_;
};

}  // namespace gemmd
