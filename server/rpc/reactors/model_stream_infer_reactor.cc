#include "server/rpc/reactors/model_stream_infer_reactor.h"

#include <limits>
#include <utility>
#include <variant>

#include "server/rpc/calls/caller.h"
#include "server/rpc/codec/decode.h"
#include "server/rpc/codec/status.h"
#include "server/rpc/oip/infer_response.h"

namespace gemmd {

struct ModelStreamInferReactor::Message {
  explicit Message(const grpc::ByteBuffer& message) : bytes(message), size(message.Length()) {}

  const ReceivedMessage bytes;
  const std::uint64_t size;
  PayloadViews raw;
  InferProduct product;
  TimeNs arrival = 0;
};

ModelStreamInferReactor* ModelStreamInferReactor::Start(const Services& services,
                                                        const InferDecoder& decoder,
                                                        const Login& login,
                                                        grpc::CallbackServerContext* context) {
  Services own = services;
  // A result is one message, whatever its size: the decoder refuses what no message carries.
  own.session_options.small_result_bytes = std::numeric_limits<std::uint64_t>::max();
  own.session_options.max_streams = 1;
  std::shared_ptr<ModelStreamInferReactor> reactor(
      new ModelStreamInferReactor(own, decoder, login, context));
  reactor->caller_ = CallerOf(*context);
  reactor->trace_ = TraceOriginOf(*context);
  auto session = std::make_shared<MatmulSession>(own.admission, own.statistics, own.clock,
                                                 own.session_options);
  // It is the first stream of a session that has room for one.
  reactor->AddTo(session).IgnoreError();
  reactor->SessionReactor::Start();
  // Last: while the server drains this ends the stream, which must have begun to read by then.
  own.sessions->Add(session);
  return reactor.get();
}

void ModelStreamInferReactor::OnReadDone(bool ok) {
  if (!ok) {
    session_->EndInput(stream_);
    return Pump();
  }
  const auto message = std::make_shared<Message>(incoming_);
  message->arrival = services_.clock->Now();
  CountMessage(message->size);
  incoming_.Clear();
  // Gone when it is mapped: it may take many times the memory of its bytes.
  inference::ModelInferRequest request;
  absl::Status status = ParseMessage(message->bytes, &request, &message->raw);
  if (status.ok()) status = Begin(request, message);
  if (!status.ok()) return session_->Break(status);
  {
    const MutexLock lock(mutex_);
    reading_waits_ = true;
  }
  Pump();
}

absl::Status ModelStreamInferReactor::Begin(const inference::ModelInferRequest& request,
                                            const std::shared_ptr<Message>& message) {
  Asked asked;
  asked.arrival = message->arrival;
  RequestHeader header;
  header.request_id = next_id_++;
  absl::StatusOr<InferProduct> product =
      decoder_.Decode(request, message->raw,
                      {login_.identity.tenant, PeerOf(*context_), message->arrival}, &asked.model);
  // Streams live long: what let this one in may have ended.
  if (absl::Status s = services_.authorizer->Check(&login_); !s.ok()) product = std::move(s);
  if (product.ok()) {
    message->product = *std::move(product);
    header.call = std::move(message->product.call);
    header.call->tenant = login_.identity.tenant;
    header.call->connection = caller_.connection;
    header.call->peer = caller_.address;
    header.call->endpoint = caller_.endpoint;
    asked.answer = std::move(message->product.answer);
    header.payload.reserve(message->product.payload.size());
    for (const PayloadChunk& chunk : message->product.payload) header.payload.emplace_back(chunk);
  } else {
    header.call = product.status();
    asked.answer.model = asked.model;
    if (request.id().size() <= kMostIdBytes) asked.answer.id = request.id();
    const auto flag = request.parameters().find("triton_enable_empty_final_response");
    asked.answer.wants_final_response =
        flag != request.parameters().end() && flag->second.bool_param();
  }
  header.arrival = message->arrival;
  header.decode = {Stage::kDecode, message->arrival, services_.clock->Now()};
  header.trace = trace_;
  header.message = message;
  header.message_bytes = message->size;
  {
    const MutexLock lock(mutex_);
    asked_.emplace(header.request_id, std::move(asked));
  }
  return session_->Begin(std::move(header));
}

grpc::ByteBuffer ModelStreamInferReactor::Encode(const std::vector<Outgoing>& message) {
  // A session whose client accepts no batches gives one at a time, and has no other messages for a
  // stream that neither opens nor joins, and awaits nothing.
  const auto& finished = std::get<RequestFinished>(message.front());
  const auto found = asked_.find(finished.request_id);
  const Asked asked = std::move(found->second);
  asked_.erase(found);
  const absl::Status status = ToPublic(finished.status);
  decoder_.RecordEnd(login_.identity.tenant.key(), asked.model, status, finished.receipt,
                     asked.arrival);
  if (!status.ok()) return EncodeStreamInferError(asked.answer, status);
  return EncodeStreamInferResponse(asked.answer, finished.receipt, finished.d, finished.payload);
}

}  // namespace gemmd
