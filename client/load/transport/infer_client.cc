#include "client/load/transport/infer_client.h"

#include <utility>

#include "absl/time/clock.h"
#include "client/channel.h"
#include "client/result.h"
#include "client/status.h"
#include "client/wire/message.h"
#include "grpcpp/client_context.h"

namespace gemmd::load {

// Deleted when it has ended. gRPC copies callbacks, so what one needs is here.
struct InferClient::UnaryCall {
  client::CountedCall counted;
  InferCall call;
  grpc::ClientContext context;
  grpc::ByteBuffer request;
  grpc::ByteBuffer answer;
  absl::Time sent;

  absl::StatusOr<client::Product> Decode(const grpc::Status& status) const {
    const absl::Time received = absl::Now();
    if (absl::Status s = client::FromGrpc(status); !s.ok()) return s;
    std::vector<grpc::Slice> slices;
    inference::ModelInferResponse response;
    PayloadViews raw;
    if (!client::DumpAndParse(answer, slices, response, raw)) {
      return client::BadResponse("it is no ModelInferResponse");
    }
    absl::StatusOr<client::Product> product = DecodeInfer(response, raw, *call.request);
    if (product.ok()) SetClientTimes(sent, received, &*product);
    return product;
  }
};

InferClient::InferClient(const client::ClientOptions& options)
    : channel_(client::MakeChannel(options.channel)),
      stub_(channel_),
      streams_(static_cast<std::size_t>(options.streams)) {}

InferClient::~InferClient() {
  {
    const MutexLock lock(mutex_);
    for (const auto& stream : streams_) {
      if (stream != nullptr) stream->Cancel();
    }
    streams_.clear();
  }
  count_->WaitForNone();
}

void InferClient::InferAsync(const std::shared_ptr<const EncodedInfer>& request,
                             const client::CallOptions& call, Done done) {
  InferCall one{request, absl::Now() + call.timeout, std::move(done)};
  if (call.route.has_value() && call.route->transport == client::Transport::kStream) {
    return SendOnStream(one);
  }
  SendUnary(std::move(one));
}

void InferClient::SendUnary(InferCall one) {
  const absl::Time deadline = one.deadline;
  auto* const call =
      new UnaryCall{client::CountedCall(count_), std::move(one), {}, {}, {}, absl::Now()};
  if (deadline != absl::InfiniteFuture()) call->context.set_deadline(absl::ToChronoTime(deadline));
  call->request = InferMessage(*call->call.request, "");
  stub_.UnaryCall(&call->context, "/inference.GRPCInferenceService/ModelInfer", grpc::StubOptions(),
                  &call->request, &call->answer, [call](const grpc::Status& status) {
                    call->call.done(call->Decode(status));
                    delete call;
                  });
}

void InferClient::SendOnStream(const InferCall& call) {
  const MutexLock lock(mutex_);
  std::shared_ptr<InferStream>& stream = streams_[turn_++ % streams_.size()];
  if (stream == nullptr || !stream->Send(call)) stream = InferStream::Open(channel_, count_, call);
}

}  // namespace gemmd::load
