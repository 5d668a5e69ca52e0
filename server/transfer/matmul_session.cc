#include "server/transfer/matmul_session.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/sync/coalescing_scope.h"
#include "base/time/units.h"
#include "server/observe/refusal.h"
#include "server/scheduling/draining.h"
#include "server/tenants/retry_after.h"

namespace gemmd {
namespace {

TimeNs DeadlineOf(const RequestHeader& header) {
  constexpr std::uint64_t kMaxUs = std::numeric_limits<TimeNs>::max() / kMicrosecond / 2;
  if (header.timeout_us == 0 || header.timeout_us > kMaxUs) return kNoDeadline;
  return header.arrival + static_cast<TimeNs>(header.timeout_us) * kMicrosecond;
}

// Bytes [begin, end) of the buffer, sharing its memory.
HostBuffer SubBuffer(const HostBuffer& buffer, std::uint64_t begin, std::uint64_t end) {
  HostBuffer part;
  std::uint64_t offset = 0;  // of the piece, in the buffer
  for (const HostPiece& piece : buffer) {
    const std::uint64_t from = std::max(begin, offset);
    const std::uint64_t to = std::min(end, offset + piece.size_bytes);
    if (from < to) part.push_back({piece.data + (from - offset), to - from, piece.owner});
    offset += piece.size_bytes;
  }
  return part;
}

std::uint64_t SizeOf(const PayloadChunk& chunk) {
  std::uint64_t bytes = 0;
  for (const absl::string_view piece : chunk.pieces) bytes += piece.size();
  return bytes;
}

}  // namespace

absl::StatusOr<MatmulSession::StreamId> MatmulSession::AddStream(Wake wake) {
  const MutexLock lock(mutex_);
  if (broken_.has_value()) return absl::UnavailableError("the session has ended");
  if (streams_.size() >= static_cast<std::size_t>(options_.max_streams)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the session has ", streams_.size(), " streams, which is the limit"));
  }
  streams_.push_back({std::move(wake), false, std::nullopt, Progress(), kNoDeadline});
  return streams_.size() - 1;
}

bool MatmulSession::IsUsedLocked(std::uint64_t request_id) const {
  return requests_.count(request_id) != 0 ||
         std::any_of(results_.begin(), results_.end(),
                     [request_id](const Result& result) { return result.client_id == request_id; });
}

bool MatmulSession::IsIdleLocked() const {
  return requests_.empty() && control_.empty() && results_.empty();
}

absl::Status MatmulSession::Begin(RequestHeader header) {
  auto request = std::make_shared<Request>();
  request->client_id = header.request_id;
  request->server_id = admission_->NextRequestId();
  request->deadline = DeadlineOf(header);
  request->arrival = header.arrival;
  request->decode = header.decode;
  request->trace = std::move(header.trace);
  request->await_accepted = header.await_accepted;
  request->payload = std::move(header.payload);
  request->message = std::move(header.message);
  absl::Status refusal = header.call.status();
  {
    const MutexLock lock(mutex_);
    if (broken_.has_value()) return absl::OkStatus();
    accepts_batches_ = accepts_batches_ || header.accepts_batches;
    if (IsUsedLocked(request->client_id)) {
      return absl::InvalidArgumentError(absl::StrCat("begin.request_id is ", request->client_id,
                                                     "; a request with this id is in flight"));
    }
    statistics_->RecordReceived();
    if (const std::size_t in_flight = InFlightLocked(); in_flight >= options_.max_requests) {
      refusal = WithCause(WithRetryAfter(absl::ResourceExhaustedError(absl::StrCat(
                                             "the session has ", in_flight,
                                             " requests in flight, which is the limit")),
                                         WaitsFor::kRequests),
                          RefusalCause::kSession);
    }
    requests_.emplace(request->client_id, request);
  }
  if (!refusal.ok()) {
    OnAdmitted(request, std::move(refusal));
    return absl::OkStatus();
  }
  constexpr auto kCarrier = Admission::Carrier::kStream;
  absl::StatusOr<std::unique_ptr<AdmittedMatmul>> admitted =
      admission_->Admit(*header.call, request->deadline, kCarrier);
  if (admission_->MayWait(admitted.status())) {
    admission_->AwaitMemory(request->server_id, *header.call, request->deadline, kCarrier,
                            header.message_bytes,
                            [self = shared_from_this(), request](auto result) {
                              self->OnAdmitted(request, std::move(result));
                            });
  } else {
    OnAdmitted(request, std::move(admitted));
  }
  return absl::OkStatus();
}

void MatmulSession::OnAdmitted(const RequestPtr& request,
                               absl::StatusOr<std::unique_ptr<AdmittedMatmul>> admitted) {
  const bool is_admitted = admitted.ok();
  if (is_admitted && request->await_accepted) (*admitted)->ExpectPayload();
  {
    const MutexLock lock(mutex_);
    if (request->state != State::kWaiting) return;  // it was cancelled, or the session broke
    if (!is_admitted) {
      EndReceivingLocked(request, admitted.status());
    } else {
      request->admitted = *std::move(admitted);
      request->held_bytes = request->admitted->held_bytes();
      request->state = State::kReceiving;
      request->receive_start = clock_->Now();
      request->progress = Progress(options_.progress, request->receive_start);
      request->moved = request->receive_start;
      if (request->await_accepted) control_.emplace_back(RequestAccepted{request->client_id});
      request->copies = 1;  // so that nobody starts it before all of the message is there
    }
  }
  if (is_admitted) {
    for (const auto& chunk : request->payload) {
      {
        const MutexLock lock(mutex_);
        if (request->state != State::kReceiving) break;
        ++request->copies;
      }
      ReceiveInto(request, chunk);
    }
    const MutexLock lock(mutex_);
    --request->copies;
  }
  request->payload.clear();
  request->message = nullptr;
  SubmitIfComplete(request);
  {
    const MutexLock lock(mutex_);
    if (!HasInputLocked()) EndIncompleteLocked();
  }
  WakeAll();
}

void MatmulSession::Receive(std::uint64_t request_id, const absl::StatusOr<PayloadChunk>& chunk) {
  RequestPtr request;
  bool is_waiting = false;
  {
    const MutexLock lock(mutex_);
    const auto found = requests_.find(request_id);
    // The request was refused or has ended: its bytes may still have been on their way.
    if (found == requests_.end() || found->second->state == State::kRunning) return;
    request = found->second;
    is_waiting = request->state == State::kWaiting;
    if (is_waiting) {
      EndReceivingLocked(
          request,
          WithCause(WithRetryAfter(absl::ResourceExhaustedError(
                                       "memory is full, and payload came before the request was "
                                       "accepted; one that waits for that (await_accepted) would "
                                       "have waited for memory"),
                                   WaitsFor::kRequests),
                    RefusalCause::kMemory));
    } else {
      ++request->copies;
    }
  }
  if (!is_waiting) return ReceiveInto(request, chunk);
  admission_->Cancel(request->server_id);
  WakeAll();
}

void MatmulSession::ReceiveInto(const RequestPtr& request,
                                const absl::StatusOr<PayloadChunk>& chunk) {
  absl::Status status = chunk.ok() ? request->admitted->payload().Receive(*chunk) : chunk.status();
  bool is_ended = false;
  {
    const MutexLock lock(mutex_);
    --request->copies;
    if (status.ok() && SizeOf(*chunk) != 0) {
      request->moved = clock_->Now();
      request->progress.Record(SizeOf(*chunk), request->moved);
    }
    is_ended = !status.ok() && request->state == State::kReceiving;
    if (is_ended) EndReceivingLocked(request, std::move(status));
  }
  if (is_ended) {
    WakeAll();
  } else {
    SubmitIfComplete(request);
  }
}

void MatmulSession::SubmitIfComplete(const RequestPtr& request) {
  std::unique_ptr<AdmittedMatmul> admitted;
  {
    const MutexLock lock(mutex_);
    if (request->state != State::kReceiving || request->copies != 0 ||
        !request->admitted->payload().complete()) {
      return;
    }
    request->state = State::kRunning;
    admitted = std::move(request->admitted);
  }
  RequestTimes times;
  times.arrival = request->arrival;
  times.trace = std::move(request->trace);
  times.spans = {request->decode, {Stage::kReceive, request->receive_start, clock_->Now()}};
  absl::Status status =
      admission_->Submit(request->server_id, std::move(admitted), std::move(times),
                         [self = shared_from_this(), request](MatmulOutcome outcome) {
                           self->OnFinished(request, std::move(outcome));
                         });
  bool is_cancelled = false;
  {
    const MutexLock lock(mutex_);
    is_cancelled = request->is_cancelled;
    if (!status.ok()) {
      statistics_->RecordRefused(status);
      if (requests_.erase(request->client_id) != 0) {
        SendLocked({request->client_id, std::move(status), {}, {}, {}, {}});
      }
    }
  }
  // Cancel() may have come before the scheduler knew the request.
  if (is_cancelled) admission_->Cancel(request->server_id);
  WakeAll();
}

void MatmulSession::OnFinished(const RequestPtr& request, MatmulOutcome outcome) {
  RequestFinished finished{request->client_id, std::move(outcome.status), {}, {}, {}, {}};
  Receipt& receipt = outcome.receipt;
  if (finished.status.ok()) {
    receipt.finish = clock_->Now();
    receipt.spans.push_back({Stage::kEncode, receipt.spans.back().end, receipt.finish});
    // A stream's payload comes while the server watches; a unary call's came before its handler.
    const StageSpan& receive = receipt.spans[1];
    admission_->transport()->Observe(TransferDirection::kReceive, receipt.payload_bytes_in,
                                     static_cast<double>(receive.end - receive.start) / 1e3);
  }
  statistics_->RecordFinished(finished.status.code(), receipt);
  {
    const MutexLock lock(mutex_);
    if (requests_.erase(request->client_id) == 0) return;  // the session broke
    if (finished.status.ok()) {
      finished.receipt = std::move(receipt);
      finished.d = outcome.problem.d;
      const std::uint64_t size = SizeOf(outcome.d);
      finished.handle = std::move(outcome.handle);
      if (outcome.d.empty()) {
        // It stays, or went into the client's shared memory.
      } else if (size <= options_.small_result_bytes) {
        finished.payload = std::move(outcome.d);
      } else {
        results_.push_back({request->client_id, std::move(outcome.d), size, 0});
      }
    }
    SendLocked(std::move(finished));
  }
  WakeAll();
}

void MatmulSession::EndReceivingLocked(const RequestPtr& request, absl::Status status) {
  statistics_->RecordRefused(status);
  AnswerReceivingLocked(request, std::move(status));
}

void MatmulSession::AnswerReceivingLocked(const RequestPtr& request, absl::Status status) {
  // A thread that copies into the request still holds it, and finds that it has ended.
  request->state = State::kEnded;
  requests_.erase(request->client_id);
  SendLocked({request->client_id, std::move(status), {}, {}, {}, {}});
}

void MatmulSession::Cancel(std::uint64_t request_id) {
  RequestPtr known;  // to admission, or soon
  {
    const MutexLock lock(mutex_);
    results_.remove_if([request_id](const Result& r) { return r.client_id == request_id; });
    const auto found = requests_.find(request_id);
    if (found != requests_.end()) {
      const RequestPtr request = found->second;
      if (request->state != State::kReceiving) known = request;
      if (request->state == State::kRunning) {
        request->is_cancelled = true;
      } else {
        EndReceivingLocked(request, absl::CancelledError("cancelled before its payload was there"));
      }
    }
  }
  if (known != nullptr) admission_->Cancel(known->server_id);
  WakeAll();
}

void MatmulSession::EndInput(StreamId stream) {
  {
    const MutexLock lock(mutex_);
    streams_[stream].input_ended = true;
    if (!HasInputLocked()) EndIncompleteLocked();
  }
  WakeAll();
}

bool MatmulSession::HasInputLocked() const {
  return std::any_of(streams_.begin(), streams_.end(),
                     [](const Stream& each) { return !each.input_ended; });
}

void MatmulSession::EndIncompleteLocked() {
  std::vector<RequestPtr> receiving;
  for (const auto& [id, request] : requests_) {
    if (request->state == State::kReceiving && request->copies == 0) receiving.push_back(request);
  }
  for (const RequestPtr& request : receiving) {
    absl::Status status = request->admitted->payload().Check();
    incomplete_.push_back(status.code());
    AnswerReceivingLocked(request, std::move(status));
  }
}

void MatmulSession::Break(const absl::Status& why) {
  std::vector<std::uint64_t> known;  // to admission
  {
    const MutexLock lock(mutex_);
    if (broken_.has_value()) return;
    broken_ = why;
    for (const auto& [id, request] : requests_) {
      if (request->state != State::kRunning) statistics_->RecordRefused(why);
      if (request->state != State::kReceiving) known.push_back(request->server_id);
      request->state = State::kEnded;
      request->is_cancelled = true;
    }
    for (std::size_t i = 0; i < incomplete_.size(); ++i) statistics_->RecordRefused(why);
    incomplete_.clear();
    requests_.clear();
    control_.clear();
    results_.clear();
    for (Stream& stream : streams_) stream.greeting.reset();
  }
  for (const std::uint64_t id : known) admission_->Cancel(id);
  WakeAll();
}

void MatmulSession::Greet(StreamId stream, Outgoing greeting) {
  Wake wake;
  {
    const MutexLock lock(mutex_);
    streams_[stream].greeting = std::move(greeting);
    wake = streams_[stream].wake;
  }
  wake();
}

std::vector<Outgoing> MatmulSession::NextMessage(StreamId stream) {
  // More would keep the first waiting.
  constexpr std::size_t kMostFinished = 64;
  const MutexLock lock(mutex_);
  std::optional<Outgoing> first = TakeNextLocked(stream);
  if (!first.has_value()) {
    streams_[stream].sending = Progress();
    streams_[stream].sending_since = kNoDeadline;
    return {};
  }
  std::uint64_t bytes = PayloadBytes(*first);
  const bool may_share = accepts_batches_ && std::holds_alternative<RequestFinished>(*first);
  std::vector<Outgoing> message;
  message.push_back(*std::move(first));
  while (may_share && !control_.empty() && message.size() < kMostFinished &&
         bytes < options_.chunk_bytes &&
         std::holds_alternative<RequestFinished>(control_.front())) {
    bytes += PayloadBytes(control_.front());
    message.push_back(std::move(control_.front()));
    control_.pop_front();
  }
  streams_[stream].sending_since = clock_->Now();
  streams_[stream].sending =
      Progress::OfWhole(options_.progress, bytes, streams_[stream].sending_since);
  return message;
}

bool MatmulSession::accepts_batches() const {
  const MutexLock lock(mutex_);
  return accepts_batches_;
}

std::size_t MatmulSession::in_flight() const {
  const MutexLock lock(mutex_);
  return InFlightLocked();
}

std::optional<Outgoing> MatmulSession::TakeNextLocked(StreamId stream) {
  Stream& to = streams_[stream];
  if (to.greeting.has_value()) {
    Outgoing greeting = *std::move(to.greeting);
    to.greeting.reset();
    return greeting;
  }
  if (stream == kFirst && !control_.empty()) {
    Outgoing next = std::move(control_.front());
    control_.pop_front();
    return next;
  }
  if (results_.empty()) return std::nullopt;
  // In turns, so that a large result does not stand in a small one's way.
  Result& result = results_.front();
  const std::uint64_t end = std::min(result.size, result.sent + options_.chunk_bytes);
  ResultChunk chunk{result.client_id, result.sent, SubBuffer(result.bytes, result.sent, end)};
  result.sent = end;
  if (end == result.size) {
    results_.pop_front();
  } else {
    results_.splice(results_.end(), results_, results_.begin());
  }
  return chunk;
}

bool MatmulSession::MayRead(StreamId stream) const {
  const MutexLock lock(mutex_);
  return stream != kFirst || control_.size() < options_.max_requests;
}

std::optional<absl::Status> MatmulSession::Closing() const {
  const MutexLock lock(mutex_);
  if (broken_.has_value()) return broken_;
  if (!IsIdleLocked()) return std::nullopt;
  if (is_draining_) return DrainingError();
  if (streams_[kFirst].input_ended) return absl::OkStatus();
  return std::nullopt;
}

void MatmulSession::OnClosed() {
  const MutexLock lock(mutex_);
  for (const absl::StatusCode code : incomplete_) statistics_->RecordRefused(code);
  incomplete_.clear();
}

void MatmulSession::StartDraining() {
  {
    const MutexLock lock(mutex_);
    // A session whose client has ended its input already ends well. One that the server ends has no
    // more input either, and yet all of its streams end alike: a client takes any other end for a
    // broken session, and forgets results that are still on their way over another stream.
    is_draining_ = is_draining_ || !streams_[kFirst].input_ended;
  }
  WakeAll();
}

void MatmulSession::WakeAll() {
  if (!CoalescingScope::Defer(this, [self = shared_from_this()] { self->WakeNow(); })) WakeNow();
}

void MatmulSession::WakeNow() const {
  std::vector<Wake> wakes;
  {
    const MutexLock lock(mutex_);
    wakes.reserve(streams_.size());
    for (const Stream& stream : streams_) wakes.push_back(stream.wake);
  }
  for (const Wake& wake : wakes) wake();
}

}  // namespace gemmd
