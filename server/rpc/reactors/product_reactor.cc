#include "server/rpc/reactors/product_reactor.h"

#include <utility>

#include "server/rpc/calls/caller.h"
#include "server/rpc/calls/deadline.h"

namespace gemmd {

ProductReactor::ProductReactor(const Services& services, Tenant tenant,
                               grpc::CallbackServerContext* context)
    : RequestReactor(services.watch, context),
      services_(services),
      tenant_(std::move(tenant)),
      came_before_drain_(!services.admission->IsDraining()),
      request_id_(services.admission->NextRequestId()) {
  services_.statistics->RecordReceived();
}

void ProductReactor::OnMessage(const grpc::ByteBuffer& message) {
  has_message_ = true;
  // No other can have been let in. Clients that send more and more to a server that drains would
  // hold up its end.
  if (came_before_drain_) ++*services_.active_calls;
  if (const absl::Status status = Start(message); !status.ok()) Refuse(status);
  // OnCancel() may have come before the request waited, or the scheduler knew it.
  if (context()->IsCancelled()) services_.admission->Cancel(request_id_);
}

absl::Status ProductReactor::Start(const grpc::ByteBuffer& request) {
  const TimeNs arrival = services_.clock->Now();
  absl::StatusOr<std::unique_ptr<Received>> decoded = Decode(request, arrival);
  if (!decoded.ok()) return decoded.status();
  std::unique_ptr<Received> received = *std::move(decoded);
  MatmulCall& call = received->call;
  call.tenant = tenant_;
  call.came_before_drain = came_before_drain_;
  Caller caller = CallerOf(*context());
  call.connection = caller.connection;
  call.peer = std::move(caller.address);
  call.endpoint = std::move(caller.endpoint);
  received->times.arrival = arrival;
  received->times.trace = TraceOriginOf(*context());
  received->times.spans.push_back({Stage::kDecode, arrival, services_.clock->Now()});

  constexpr auto kCarrier = Admission::Carrier::kMessage;
  Admission* const admission = services_.admission;
  const TimeNs deadline = DeadlineOf(context()->raw_deadline(), arrival);
  absl::StatusOr<std::unique_ptr<AdmittedMatmul>> admitted =
      admission->Admit(call, deadline, kCarrier);
  if (admitted.ok()) return Submit(received.get(), *std::move(admitted));
  if (!admission->MayWait(admitted.status())) return admitted.status();
  const std::uint64_t bytes = received->size;
  admission->AwaitMemory(request_id_, call, deadline, kCarrier, bytes,
                         [this, received = std::move(received)](auto result) {
                           OnAdmitted(received.get(), std::move(result));
                         });
  return absl::OkStatus();
}

void ProductReactor::OnAdmitted(Received* received,
                                absl::StatusOr<std::unique_ptr<AdmittedMatmul>> admitted) {
  absl::Status status = admitted.status();
  if (status.ok()) status = Submit(received, *std::move(admitted));
  if (!status.ok()) Refuse(status);
}

absl::Status ProductReactor::Submit(Received* received, std::unique_ptr<AdmittedMatmul> admitted) {
  const TimeNs receive_start = services_.clock->Now();
  if (absl::Status s = received->CopyTo(&admitted->payload()); !s.ok()) return s;
  received->times.spans.push_back({Stage::kReceive, receive_start, services_.clock->Now()});
  return services_.admission->Submit(
      request_id_, std::move(admitted), std::move(received->times),
      [this](MatmulOutcome outcome) { OnFinished(std::move(outcome)); });
}

void ProductReactor::Refuse(const absl::Status& status) {
  services_.statistics->RecordRefused(status);
  OnProductEnd(status, Receipt());
  Fail(status);
}

void ProductReactor::OnFinished(MatmulOutcome outcome) {
  Receipt& receipt = outcome.receipt;
  grpc::ByteBuffer response;
  if (outcome.status.ok()) {
    const TimeNs start = receipt.spans.back().end;  // of the device's last stage
    receipt.finish = services_.clock->Now();
    receipt.spans.push_back({Stage::kEncode, start, receipt.finish});
    sent_bytes_ = receipt.payload_bytes_out;
    response = Encode(outcome);
  }
  services_.statistics->RecordFinished(outcome.status.code(), receipt);
  OnProductEnd(outcome.status, receipt);
  send_start_ = services_.clock->Now();
  outcome.status.ok() ? Answer(&response) : Fail(outcome.status);
}

void ProductReactor::OnEnd() {
  if (!has_message_) {
    return services_.statistics->RecordRefused(
        context()->IsCancelled() ? absl::StatusCode::kCancelled : without_message_);
  }
  // gRPC has given the answer to the connection, which flow control lets a slow client delay.
  if (sent_bytes_ != 0 && !context()->IsCancelled()) {
    services_.admission->transport()->Observe(
        TransferDirection::kSend, sent_bytes_,
        static_cast<double>(services_.clock->Now() - send_start_) / 1e3);
  }
  if (came_before_drain_) --*services_.active_calls;
}

}  // namespace gemmd
