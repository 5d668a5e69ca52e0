#include "server/rpc/reactors/matmul_reactor.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/rpc/calls/caller.h"
#include "server/rpc/calls/deadline.h"
#include "server/rpc/codec/decode.h"

namespace gemmd {
namespace {

// A chunk of a unary call has no other request to belong to.
absl::Status CheckRequestIds(const v1::MatmulRequest& message) {
  for (int i = 0; i < message.payload_size(); ++i) {
    if (message.payload(i).request_id() == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("payload[", i, "].request_id is ",
                                                   message.payload(i).request_id(),
                                                   "; in Matmul it must be 0"));
  }
  return absl::OkStatus();
}

}  // namespace

MatmulReactor::MatmulReactor(Admission* admission, Statistics* statistics, const Clock* clock,
                             std::atomic<int>* active_calls, CallWatch* watch, Tenant tenant,
                             grpc::CallbackServerContext* context)
    : RequestReactor(watch, context),
      admission_(admission),
      statistics_(statistics),
      clock_(clock),
      active_calls_(active_calls),
      tenant_(std::move(tenant)),
      came_before_drain_(!admission->IsDraining()),
      request_id_(admission->NextRequestId()) {
  statistics_->RecordReceived();
}

void MatmulReactor::OnMessage(const grpc::ByteBuffer& message) {
  has_message_ = true;
  // No other can have been let in. Clients that send more and more to a server that drains would
  // hold up its end.
  if (came_before_drain_) ++*active_calls_;
  if (const absl::Status status = Start(message); !status.ok()) Refuse(status);
  // OnCancel() may have come before the request waited, or the scheduler knew it.
  if (context()->IsCancelled()) admission_->Cancel(request_id_);
}

absl::Status MatmulReactor::Start(const grpc::ByteBuffer& request) {
  const TimeNs arrival = clock_->Now();
  auto received = std::make_unique<Received>(request);
  v1::MatmulRequest& message = received->message;
  if (absl::Status s = ParseMessage(received->bytes, &message, &received->payload); !s.ok()) {
    return s;
  }
  if (absl::Status s = CheckRequestIds(message); !s.ok()) return s;
  absl::StatusOr<MatmulCall> call = DecodeHeader(message.header());
  if (!call.ok()) return call.status();
  call->tenant = tenant_;
  call->came_before_drain = came_before_drain_;
  Caller caller = CallerOf(*context());
  call->connection = caller.connection;
  call->peer = std::move(caller.address);
  call->endpoint = std::move(caller.endpoint);
  received->times.arrival = arrival;
  received->times.trace = TraceOriginOf(*context());
  received->times.spans.push_back({Stage::kDecode, arrival, clock_->Now()});

  constexpr auto kCarrier = Admission::Carrier::kMessage;
  const TimeNs deadline = DeadlineOf(context()->raw_deadline(), arrival);
  absl::StatusOr<std::unique_ptr<AdmittedMatmul>> admitted =
      admission_->Admit(*call, deadline, kCarrier);
  if (admitted.ok()) return Submit(received.get(), *std::move(admitted));
  if (!admission_->MayWait(admitted.status())) return admitted.status();
  const std::uint64_t bytes = received->size;
  admission_->AwaitMemory(request_id_, *call, deadline, kCarrier, bytes,
                          [this, received = std::move(received)](auto result) {
                            OnAdmitted(received.get(), std::move(result));
                          });
  return absl::OkStatus();
}

void MatmulReactor::OnAdmitted(Received* received,
                               absl::StatusOr<std::unique_ptr<AdmittedMatmul>> admitted) {
  absl::Status status = admitted.status();
  if (status.ok()) status = Submit(received, *std::move(admitted));
  if (!status.ok()) Refuse(status);
}

absl::Status MatmulReactor::Submit(Received* received, std::unique_ptr<AdmittedMatmul> admitted) {
  const TimeNs receive_start = clock_->Now();
  for (const v1::Chunk& wire : received->message.payload()) {
    const absl::StatusOr<PayloadChunk> chunk = DecodeChunk(wire, received->payload);
    if (!chunk.ok()) return chunk.status();
    if (absl::Status s = admitted->payload().Receive(*chunk); !s.ok()) return s;
  }
  received->times.spans.push_back({Stage::kReceive, receive_start, clock_->Now()});
  return admission_->Submit(request_id_, std::move(admitted), std::move(received->times),
                            [this](MatmulOutcome outcome) { OnFinished(std::move(outcome)); });
}

void MatmulReactor::Refuse(const absl::Status& status) {
  statistics_->RecordRefused(status);
  Fail(status);
}

void MatmulReactor::OnFinished(MatmulOutcome outcome) {
  Receipt& receipt = outcome.receipt;
  grpc::ByteBuffer response;
  if (outcome.status.ok()) {
    const TimeNs start = receipt.spans.back().end;  // of the device's last stage
    receipt.finish = clock_->Now();
    receipt.spans.push_back({Stage::kEncode, start, receipt.finish});
    sent_bytes_ = receipt.payload_bytes_out;
    response = EncodeMatmulResponse(receipt, outcome.problem.d, outcome.d, outcome.handle);
  }
  statistics_->RecordFinished(outcome.status.code(), receipt);
  send_start_ = clock_->Now();
  outcome.status.ok() ? Answer(&response) : Fail(outcome.status);
}

void MatmulReactor::OnEnd() {
  if (!has_message_) {
    return statistics_->RecordRefused(context()->IsCancelled() ? absl::StatusCode::kCancelled
                                                               : without_message_);
  }
  // gRPC has given the answer to the connection, which flow control lets a slow client delay.
  if (sent_bytes_ != 0 && !context()->IsCancelled()) {
    admission_->transport()->Observe(TransferDirection::kSend, sent_bytes_,
                                     static_cast<double>(clock_->Now() - send_start_) / 1e3);
  }
  if (came_before_drain_) --*active_calls_;
}

}  // namespace gemmd
