#include "server/transfer/matmul_session.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "server/admission/retry_after.h"
#include "sync/deferral.h"

namespace gemmd {
namespace {

constexpr TimeNs kNsPerUs = 1000;
constexpr TimeNs kNsPerMs = 1000000;
constexpr std::int64_t kRetryMs = 1;  // where one's own requests must end first

TimeNs DeadlineOf(const RequestHeader& header) {
  constexpr std::uint64_t kMaxUs = std::numeric_limits<TimeNs>::max() / kNsPerUs / 2;
  if (header.timeout_us == 0 || header.timeout_us > kMaxUs) return kNoDeadline;
  return header.arrival + static_cast<TimeNs>(header.timeout_us) * kNsPerUs;
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

std::uint64_t SizeOf(const HostBuffer& buffer) {
  std::uint64_t bytes = 0;
  for (const HostPiece& piece : buffer) bytes += piece.size_bytes;
  return bytes;
}

}  // namespace

absl::StatusOr<MatmulSession::StreamId> MatmulSession::AddStream(Wake wake) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (broken_.has_value()) return absl::UnavailableError("the session has ended");
  if (streams_.size() >= static_cast<std::size_t>(options_.max_streams)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the session has ", streams_.size(), " streams, which is the limit"));
  }
  streams_.push_back({std::move(wake), false, std::nullopt, std::nullopt});
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
  const std::uint64_t id = header.request_id;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (broken_.has_value()) return absl::OkStatus();
    accepts_batches_ = accepts_batches_ || header.accepts_batches;
    if (IsUsedLocked(id)) {
      return absl::InvalidArgumentError(
          absl::StrCat("begin.request_id is ", id, "; a request with this id is in flight"));
    }
  }
  statistics_->RecordReceived();
  const TimeNs deadline = DeadlineOf(header);
  // Requests begin one at a time, on the first stream, so that the count holds.
  absl::StatusOr<std::unique_ptr<AdmittedMatmul>> admitted = [&] {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const std::size_t in_flight = requests_.size() + results_.size();
      if (in_flight >= options_.max_requests) {
        return absl::StatusOr<std::unique_ptr<AdmittedMatmul>>(WithRetryAfter(
            absl::ResourceExhaustedError(absl::StrCat("the session has ", in_flight,
                                                      " requests in flight, which is the limit")),
            kRetryMs));
      }
    }
    if (!header.call.ok()) {
      return absl::StatusOr<std::unique_ptr<AdmittedMatmul>>(header.call.status());
    }
    return admission_->Admit(*header.call, deadline, Admission::Carrier::kStream);
  }();

  auto request = std::make_shared<Request>();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!admitted.ok() || broken_.has_value()) {
      statistics_->RecordRefused(admitted.ok() ? broken_->code() : admitted.status().code());
      if (!broken_.has_value()) SendLocked({id, admitted.status(), {}, {}, {}, {}});
    } else {
      request->client_id = id;
      request->server_id = admission_->NextRequestId();
      request->deadline = deadline;
      request->arrival = header.arrival;
      request->decode = header.decode;
      request->receive_start = request->last_progress = clock_->Now();
      request->admitted = *std::move(admitted);
      requests_.emplace(id, request);
      if (header.await_accepted) control_.emplace_back(RequestAccepted{id});
    }
  }
  if (request->admitted != nullptr) SubmitIfComplete(request);
  WakeAll();
  return absl::OkStatus();
}

void MatmulSession::Receive(std::uint64_t request_id, const absl::StatusOr<PayloadChunk>& chunk) {
  RequestPtr request;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = requests_.find(request_id);
    // The request was refused or has ended: its bytes may still have been on their way.
    if (found == requests_.end() || found->second->state != State::kReceiving) return;
    request = found->second;
    ++request->copies;
  }
  absl::Status status = chunk.ok() ? request->admitted->payload().Receive(*chunk) : chunk.status();
  bool is_ended = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    --request->copies;
    request->last_progress = clock_->Now();
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
    const std::lock_guard<std::mutex> lock(mutex_);
    if (request->state != State::kReceiving || request->copies != 0 ||
        !request->admitted->payload().complete()) {
      return;
    }
    request->state = State::kRunning;
    admitted = std::move(request->admitted);
  }
  RequestTimes times;
  times.arrival = request->arrival;
  times.spans = {request->decode, {Stage::kReceive, request->receive_start, clock_->Now()}};
  absl::Status status =
      admission_->Submit(request->server_id, std::move(admitted), std::move(times),
                         [self = shared_from_this(), request](MatmulOutcome outcome) {
                           self->OnFinished(request, std::move(outcome));
                         });
  bool is_cancelled = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_cancelled = request->is_cancelled;
    if (!status.ok()) {
      statistics_->RecordRefused(status.code());
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
    const std::lock_guard<std::mutex> lock(mutex_);
    if (requests_.erase(request->client_id) == 0) return;  // the session broke
    if (finished.status.ok()) {
      finished.receipt = std::move(receipt);
      finished.d = outcome.problem.d;
      const std::uint64_t size = finished.d.size_bytes();
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
  statistics_->RecordRefused(status.code());
  // Whoever copies into it still holds it, and finds that it has ended.
  request->state = State::kRunning;
  requests_.erase(request->client_id);
  SendLocked({request->client_id, std::move(status), {}, {}, {}, {}});
}

void MatmulSession::Cancel(std::uint64_t request_id) {
  RequestPtr running;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    results_.remove_if([request_id](const Result& r) { return r.client_id == request_id; });
    const auto found = requests_.find(request_id);
    if (found != requests_.end()) {
      const RequestPtr request = found->second;
      if (request->state == State::kReceiving) {
        EndReceivingLocked(request, absl::CancelledError("cancelled before its payload was there"));
      } else {
        request->is_cancelled = true;
        running = request;
      }
    }
  }
  if (running != nullptr) admission_->Cancel(running->server_id);
  WakeAll();
}

void MatmulSession::EndInput(StreamId stream) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    streams_[stream].input_ended = true;
    const bool is_last = std::all_of(streams_.begin(), streams_.end(),
                                     [](const Stream& each) { return each.input_ended; });
    if (is_last) {
      std::vector<RequestPtr> receiving;
      for (const auto& [id, request] : requests_) {
        if (request->state == State::kReceiving) receiving.push_back(request);
      }
      for (const RequestPtr& request : receiving) {
        EndReceivingLocked(request, request->admitted->payload().Check());
      }
    }
  }
  WakeAll();
}

void MatmulSession::Break(const absl::Status& why) {
  std::vector<std::uint64_t> running;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (broken_.has_value()) return;
    broken_ = why;
    for (const auto& [id, request] : requests_) {
      if (request->state == State::kReceiving) {
        statistics_->RecordRefused(why.code());
      } else {
        running.push_back(request->server_id);
      }
      request->state = State::kRunning;
      request->is_cancelled = true;
    }
    requests_.clear();
    control_.clear();
    results_.clear();
    for (Stream& stream : streams_) stream.greeting.reset();
  }
  for (std::uint64_t id : running) admission_->Cancel(id);
  WakeAll();
}

void MatmulSession::Greet(StreamId stream, Outgoing greeting) {
  Wake wake;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    streams_[stream].greeting = std::move(greeting);
    wake = streams_[stream].wake;
  }
  wake();
}

std::vector<Outgoing> MatmulSession::NextMessage(StreamId stream) {
  // More would keep the first waiting.
  constexpr std::size_t kMostFinished = 64;
  const std::lock_guard<std::mutex> lock(mutex_);
  std::optional<Outgoing> first = TakeNextLocked(stream);
  if (!first.has_value()) {
    streams_[stream].sending_since.reset();
    return {};
  }
  streams_[stream].sending_since = clock_->Now();
  std::vector<Outgoing> message;
  message.push_back(*std::move(first));
  const auto* finished = std::get_if<RequestFinished>(&message.front());
  if (finished == nullptr || !accepts_batches_) return message;
  std::uint64_t bytes = SizeOf(finished->payload);
  while (!control_.empty() && message.size() < kMostFinished && bytes < options_.chunk_bytes) {
    finished = std::get_if<RequestFinished>(&control_.front());
    if (finished == nullptr) break;
    bytes += SizeOf(finished->payload);
    message.push_back(std::move(control_.front()));
    control_.pop_front();
  }
  return message;
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
  const std::lock_guard<std::mutex> lock(mutex_);
  return stream != kFirst || control_.size() < options_.max_requests;
}

std::optional<absl::Status> MatmulSession::Closing() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (broken_.has_value()) return broken_;
  if (!IsIdleLocked()) return std::nullopt;
  if (streams_[kFirst].input_ended) return absl::OkStatus();
  if (is_draining_) return absl::UnavailableError("the server is draining: use another replica");
  return std::nullopt;
}

void MatmulSession::EndLate(TimeNs now) {
  bool is_stalled = false;
  bool is_changed = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_stalled = std::any_of(streams_.begin(), streams_.end(), [&](const Stream& stream) {
      return stream.sending_since.has_value() &&
             now - *stream.sending_since > options_.stall_timeout;
    });
    std::vector<std::pair<RequestPtr, absl::Status>> late;
    for (const auto& [id, request] : requests_) {
      if (request->state != State::kReceiving) continue;
      if (request->deadline <= now) {
        late.emplace_back(request, absl::DeadlineExceededError(
                                       "the deadline passed before the payload was there"));
      } else if (now - request->last_progress > options_.stall_timeout) {
        late.emplace_back(request, absl::DeadlineExceededError(absl::StrCat(
                                       "no payload came for ", options_.stall_timeout / kNsPerMs,
                                       " ms (limits.stall_timeout_ms)")));
      }
    }
    for (auto& [request, status] : late) EndReceivingLocked(request, std::move(status));
    is_changed = !late.empty();
  }
  if (is_stalled) {
    Break(absl::DeadlineExceededError(absl::StrCat("the client did not read for ",
                                                   options_.stall_timeout / kNsPerMs,
                                                   " ms (limits.stall_timeout_ms)")));
  } else if (is_changed) {
    WakeAll();
  }
}

void MatmulSession::StartDraining() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_draining_ = true;
  }
  WakeAll();
}

void MatmulSession::WakeAll() {
  if (!Deferral::PutOff(this, [self = shared_from_this()] { self->WakeNow(); })) WakeNow();
}

void MatmulSession::WakeNow() const {
  std::vector<Wake> wakes;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    wakes.reserve(streams_.size());
    for (const Stream& stream : streams_) wakes.push_back(stream.wake);
  }
  for (const Wake& wake : wakes) wake();
}

}  // namespace gemmd
