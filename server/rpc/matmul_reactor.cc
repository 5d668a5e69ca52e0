#include "server/rpc/matmul_reactor.h"

#include <chrono>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/rpc/decode.h"
#include "server/rpc/status.h"
#include "server/rpc/tenant.h"

namespace gemmd {
namespace {

TimeNs DeadlineOf(const grpc::CallbackServerContext& context, TimeNs now) {
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return kNoDeadline;
  const auto left = deadline - std::chrono::system_clock::now();
  return now + std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
}

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
                             std::atomic<int>* active_calls, grpc::CallbackServerContext* context,
                             const grpc::ByteBuffer* request, grpc::ByteBuffer* response)
    : admission_(admission),
      statistics_(statistics),
      clock_(clock),
      active_calls_(active_calls),
      context_(context),
      response_(response),
      request_id_(admission->NextRequestId()) {
  ++*active_calls_;
  statistics_->RecordReceived();
  if (const absl::Status status = Start(*request); !status.ok()) {
    statistics_->RecordRefused(status.code());
    Finish(ToGrpcStatus(status, context_));
  }
}

absl::Status MatmulReactor::Start(const grpc::ByteBuffer& request) {
  RequestTimes times;
  times.arrival = clock_->Now();
  const ReceivedMessage bytes(request);
  v1::MatmulRequest message;
  PayloadViews payload;
  if (absl::Status s = ParseMessage(bytes, &message, &payload); !s.ok()) return s;
  if (absl::Status s = CheckRequestIds(message); !s.ok()) return s;
  absl::StatusOr<MatmulCall> call = DecodeHeader(message.header());
  if (!call.ok()) return call.status();
  absl::StatusOr<Tenant> tenant = TenantOf(*context_);
  if (!tenant.ok()) return tenant.status();
  call->tenant = *std::move(tenant);
  call->connection = ConnectionOf(*context_);
  times.spans.push_back({Stage::kDecode, times.arrival, clock_->Now()});

  absl::StatusOr<std::unique_ptr<AdmittedMatmul>> admitted =
      admission_->Admit(*call, DeadlineOf(*context_, times.arrival), Admission::Carrier::kMessage);
  if (!admitted.ok()) return admitted.status();
  const TimeNs receive_start = clock_->Now();
  for (const v1::Chunk& wire : message.payload()) {
    const absl::StatusOr<PayloadChunk> chunk = DecodeChunk(wire, payload);
    if (!chunk.ok()) return chunk.status();
    if (absl::Status s = (*admitted)->payload().Receive(*chunk); !s.ok()) return s;
  }
  times.spans.push_back({Stage::kReceive, receive_start, clock_->Now()});
  return admission_->Submit(request_id_, *std::move(admitted), std::move(times),
                            [this](MatmulOutcome outcome) { OnFinished(std::move(outcome)); });
}

void MatmulReactor::OnFinished(MatmulOutcome outcome) {
  Receipt& receipt = outcome.receipt;
  if (outcome.status.ok()) {
    const TimeNs start = receipt.spans.back().end;  // of the device's last stage
    receipt.finish = clock_->Now();
    receipt.spans.push_back({Stage::kEncode, start, receipt.finish});
    sent_bytes_ = receipt.payload_bytes_out;
    *response_ = EncodeMatmulResponse(receipt, outcome.problem.d, outcome.d, outcome.handle);
  }
  statistics_->RecordFinished(outcome.status.code(), receipt);
  send_start_ = clock_->Now();
  Finish(ToGrpcStatus(outcome.status, context_));
}

void MatmulReactor::OnDone() {
  // gRPC has given the answer to the connection, which flow control lets a slow client delay.
  if (sent_bytes_ != 0 && !context_->IsCancelled()) {
    admission_->transport()->Observe(TransferDirection::kSend, sent_bytes_,
                                     static_cast<double>(clock_->Now() - send_start_) / 1e3);
  }
  --*active_calls_;
  delete this;
}

}  // namespace gemmd
