// Products through inference.GRPCInferenceService, as client::Client has them through Gemm.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/sync/mutex.h"
#include "client/calls/call_count.h"
#include "client/load/transport/infer_message.h"
#include "client/load/transport/infer_stream.h"
#include "client/options.h"
#include "grpcpp/channel.h"
#include "grpcpp/generic/generic_stub.h"

namespace gemmd::load {

// Thread-safe. Nothing is tried again. It takes of the options the channel and the number of
// streams, and of a call's the timeout and the route's transport.
class InferClient {
 public:
  explicit InferClient(const client::ClientOptions& options);
  // REQUIRES: every request has ended; not on a thread of gRPC's.
  ~InferClient();
  InferClient(const InferClient&) = delete;
  InferClient& operator=(const InferClient&) = delete;

  // `done` runs on a thread of gRPC's, once, and never within this. A request of a stream goes over
  // the streams in turn; one that has ended is opened anew. REQUIRES: those of streams all have one
  // timeout.
  using Done = std::function<void(const absl::StatusOr<client::Product>&)>;
  void InferAsync(const std::shared_ptr<const EncodedInfer>& request,
                  const client::CallOptions& call, Done done);

 private:
  struct UnaryCall;

  void SendUnary(InferCall call);
  void SendOnStream(const InferCall& call);

  const std::shared_ptr<client::CallCount> count_ = std::make_shared<client::CallCount>();
  const std::shared_ptr<grpc::Channel> channel_;
  grpc::GenericStub stub_;
  Mutex mutex_;
  std::size_t turn_ ABSL_GUARDED_BY(mutex_) = 0;
  // Null: not open yet.
  std::vector<std::shared_ptr<InferStream>> streams_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd::load
