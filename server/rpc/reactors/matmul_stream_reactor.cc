#include "server/rpc/reactors/matmul_stream_reactor.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/sync/coalescing_scope.h"
#include "server/rpc/codec/decode.h"
#include "server/rpc/codec/encode.h"

namespace gemmd {

using Event = v1::MatmulStreamRequest;

namespace {

// Chunks of one stream that are copied at once: while one is, the next one is read.
constexpr int kMaxCopies = 2;

// From so many requests in flight on more messages are probably on their way, and are read before
// those that came are handled. Below, each would wait for that reading longer than it gains
// (docs/benchmarks/decode.md).
constexpr std::size_t kManyInFlight = 8;

// The most begins of one message: whether the session may take more is asked between messages.
// Messages that gathered are launched together in groups of about as many: the device may wait for
// the first.
constexpr int kMaxBegins = 64;

int BeginsOf(const Event& event) {
  if (event.has_batch()) return event.batch().begins_size();
  return event.has_begin() ? 1 : 0;
}

}  // namespace

MatmulStreamReactor* MatmulStreamReactor::Start(const Services& services, const Login& login,
                                                grpc::CallbackServerContext* context) {
  const std::shared_ptr<MatmulStreamReactor> reactor(
      new MatmulStreamReactor(services, login, context));
  reactor->SessionReactor::Start();
  return reactor.get();
}

void MatmulStreamReactor::OnReadDone(bool ok) {
  if (!ok) return OnReadEnd();
  const TimeNs arrival = services_.clock->Now();
  CountMessage(incoming_.Length());
  const auto received = std::make_shared<Received>(incoming_);
  received->arrival = arrival;
  incoming_.Clear();
  absl::Status status = ParseMessage(received->bytes, &received->event, &received->payload);
  if (session_ == nullptr) return status.ok() ? HandleFirst(received) : FinishOnce(status);
  // The other streams of a session break with this one.
  if (!status.ok()) return session_->Break(status);
  bool is_copied_here = false;
  bool is_handled_here = false;
  {
    const MutexLock lock(mutex_);
    reading_waits_ = true;
    // A chunk may belong to a request that is still to be begun.
    is_copied_here = received->event.has_chunk() && inbox_.is_idle();
    if (is_copied_here) {
      ++copies_;
    } else {
      is_handled_here = inbox_.Put(received, received->size);
    }
  }
  if (is_handled_here) return HandleInbox();
  Pump();
  if (is_copied_here) Receive(received->event.chunk(), received->payload);
}

void MatmulStreamReactor::OnReadEnd() {
  if (session_ == nullptr) return FinishOnce(absl::OkStatus());
  bool is_last = false;
  {
    const MutexLock lock(mutex_);
    input_ended_ = true;
    is_last = HasNoInputLeft();
  }
  if (is_last) EndInput();
}

void MatmulStreamReactor::HandleFirst(const ReceivedPtr& received) {
  // A refused Join ends nothing but this stream.
  if (const absl::Status s = Handle(received); !s.ok()) {
    return session_ == nullptr ? FinishOnce(s) : session_->Break(s);
  }
  {
    const MutexLock lock(mutex_);
    reading_waits_ = true;
  }
  Pump();
}

void MatmulStreamReactor::HandleInbox() {
  while (true) {
    std::vector<ReceivedPtr> gathered;
    bool is_last = false;
    {
      const MutexLock lock(mutex_);
      gathered = inbox_.Take();
      is_last = HasNoInputLeft();
    }
    if (gathered.empty()) return is_last ? EndInput() : Pump();
    if (session_->in_flight() >= kManyInFlight) Pump();
    for (auto next = gathered.begin(); next != gathered.end();) {
      // Their requests are launched together, and the session looks once for what to send.
      const CoalescingScope together;
      for (int begins = 0; next != gathered.end() && begins < kMaxBegins; ++next) {
        begins += BeginsOf((*next)->event);
        if (const absl::Status s = Handle(*next); !s.ok()) session_->Break(s);
      }
    }
  }
}

void MatmulStreamReactor::Receive(const v1::Chunk& chunk, const PayloadViews& payload) {
  session_->Receive(chunk.request_id(), DecodeChunk(chunk, payload));
  bool is_last = false;
  {
    const MutexLock lock(mutex_);
    --copies_;
    is_last = HasNoInputLeft();
  }
  if (is_last) return EndInput();
  Pump();
}

void MatmulStreamReactor::EndInput() {
  session_->EndInput(stream_);
  Pump();
}

absl::Status MatmulStreamReactor::Handle(const ReceivedPtr& received) {
  const Event& event = received->event;
  const bool is_entry = event.has_open() || event.has_join();
  if (session_ == nullptr) {
    if (absl::Status s = Enter(event); !s.ok() || is_entry) return s;
  } else if (is_entry) {
    return absl::InvalidArgumentError(
        absl::StrCat(event.has_open() ? "open" : "join", " must be the stream's first event"));
  }
  if (event.has_chunk()) {
    session_->Receive(event.chunk().request_id(), DecodeChunk(event.chunk(), received->payload));
    return absl::OkStatus();
  }
  if (stream_ != MatmulSession::kFirst) {
    return absl::InvalidArgumentError("a stream that joined a session sends chunks alone");
  }
  if (event.has_begin()) return Begin(event.begin(), received);
  if (event.has_batch()) {
    const int begins = event.batch().begins_size();
    if (begins < 1 || begins > kMaxBegins) {
      return absl::InvalidArgumentError(
          absl::StrCat("batch.begins has ", begins, " entries; it must have 1 to ", kMaxBegins));
    }
    const CoalescingScope together;  // of the first message too
    for (const Event::Begin& begin : event.batch().begins()) {
      if (absl::Status s = Begin(begin, received); !s.ok()) return s;
    }
    return absl::OkStatus();
  }
  if (event.has_cancel()) {
    session_->Cancel(event.cancel().request_id());
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "the message has no event: one of begin, cancel, open, join, batch and chunk must be set");
}

absl::Status MatmulStreamReactor::Begin(const Event::Begin& begin, const ReceivedPtr& received) {
  RequestHeader header;
  header.request_id = begin.request_id();
  header.call = DecodeHeader(begin.header());
  // Streams live long: what let this one in may have ended.
  if (absl::Status s = services_.authorizer->Check(&login_); !s.ok()) header.call = std::move(s);
  if (header.call.ok()) {
    header.call->tenant = login_.identity.tenant;
    header.call->connection = caller_.connection;
    header.call->peer = caller_.address;
    header.call->endpoint = caller_.endpoint;
  }
  header.timeout_us = begin.header().timeout_us();
  header.await_accepted = begin.await_accepted();
  header.accepts_batches = begin.accepts_batches();
  header.arrival = received->arrival;
  header.decode = {Stage::kDecode, received->arrival, services_.clock->Now()};
  header.trace = begin.traceparent().empty()
                     ? trace_
                     : ReadTraceOrigin(begin.traceparent(), begin.tracestate());
  header.payload.reserve(static_cast<std::size_t>(begin.payload_size()));
  for (const v1::Chunk& chunk : begin.payload()) {
    header.payload.push_back(DecodeChunk(chunk, received->payload));
  }
  header.message = received;
  header.message_bytes = received->size;
  return session_->Begin(std::move(header));
}

absl::Status MatmulStreamReactor::Enter(const Event& first) {
  caller_ = CallerOf(*context_);
  trace_ = TraceOriginOf(*context_);
  if (first.has_join()) {
    absl::StatusOr<std::shared_ptr<MatmulSession>> session =
        services_.sessions->Find(first.join().session(), login_.identity.tenant.key());
    if (!session.ok()) return session.status();
    if (absl::Status s = AddTo(*std::move(session)); !s.ok()) return s;
    Count();
    session_->Greet(stream_, SessionJoined());
    return absl::OkStatus();
  }
  auto session = std::make_shared<MatmulSession>(services_.admission, services_.statistics,
                                                 services_.clock, services_.session_options);
  if (absl::Status s = AddTo(session); !s.ok()) return s;
  services_.sessions->Add(session);
  if (first.has_open())
    session->Greet(stream_,
                   SessionOpened{services_.sessions->Open(session, login_.identity.tenant.key())});
  return absl::OkStatus();
}

grpc::ByteBuffer MatmulStreamReactor::Encode(const std::vector<Outgoing>& message) {
  return EncodeStreamResponse(message, session_->accepts_batches());
}

bool MatmulStreamReactor::HasRoomLocked() const {
  return copies_ < kMaxCopies && inbox_.has_room();
}

}  // namespace gemmd
