#include "client/stream/stream_session.h"

#include <utility>

#include "absl/time/clock.h"
#include "client/channel.h"
#include "client/status.h"
#include "client/stream/stream_message.h"
#include "client/wire/message.h"
#include "grpcpp/alarm.h"
#include "grpcpp/client_context.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/client_callback.h"

namespace gemmd::client {
namespace {

constexpr char kMethod[] = "/gemmd.v1.Gemm/MatmulStream";

// Callbacks whose requests wait for each other: they take a microsecond each, or the caller's time.
constexpr std::size_t kToldTogether = 8;

// The session that notifies of several results on this thread; null: none.
thread_local const StreamSession* notifying = nullptr;

using Slices = std::shared_ptr<std::vector<grpc::Slice>>;

struct GrpcAnswer : StreamAnswer {
  Slices slices;  // of the message it came in
};

// The state judges whether a stream was cancelled.
absl::Status StatusOf(const grpc::Status& status) {
  if (status.error_code() != grpc::StatusCode::CANCELLED) return FromGrpc(status);
  return absl::CancelledError(status.error_message());
}

ReceivedAnswers Parse(const grpc::ByteBuffer& bytes) {
  const auto slices = std::make_shared<std::vector<grpc::Slice>>();
  auto whole = std::make_shared<GrpcAnswer>();
  whole->slices = slices;
  if (!DumpAndParse(bytes, *slices, whole->message, whole->payload)) return {};
  if (!whole->message.has_batch()) return {{whole}, false};
  ReceivedAnswers batch;
  batch.is_batch = true;
  for (auto& finished : *whole->message.mutable_batch()->mutable_finished()) {
    auto answer = std::make_shared<GrpcAnswer>();
    answer->slices = slices;
    *answer->message.mutable_finished() = std::move(finished);
    answer->payload = whole->payload;
    batch.answers.push_back(std::move(answer));
  }
  return batch;
}

}  // namespace

// Belongs to itself: gone once gRPC has told its end.
class StreamSession::Stream final
    : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  Stream(std::shared_ptr<StreamSession> session, int index,
         const std::shared_ptr<grpc::Channel>& channel)
      : session_(std::move(session)), index_(index), stub_(channel) {}

  void Start() {
    stub_.PrepareBidiStreamingCall(&context_, kMethod, grpc::StubOptions(), this);
    // Writes come from other threads than the stream's; they hold it until reading has ended.
    AddHold();
    StartRead(&incoming_);
    StartCall();
  }

  // REQUIRES: the last write is over, and reading has not ended.
  void Write(const Outgoing& outgoing) {
    outgoing_ = StreamMessage(outgoing, absl::Now());
    StartWrite(&outgoing_);
  }

  void Cancel() { context_.TryCancel(); }

  void OnReadDone(bool ok) override {
    if (!ok) return OnReadEnd();
    const ReceivedAnswers received = Parse(incoming_);
    incoming_.Clear();
    Actions actions;
    bool reads_ahead = false;
    {
      const MutexLock lock(session_->mutex_);
      actions = session_->Received(index_, received);
      reads_ahead = !actions.copies.empty() && !is_copying_;
      is_copying_ = is_copying_ || reads_ahead;
    }
    // While a chunk is copied the next one is read: one, so that few are held.
    if (reads_ahead) StartRead(&incoming_);
    session_->Do(actions);
    if (!reads_ahead) return StartRead(&incoming_);
    const MutexLock lock(session_->mutex_);
    is_copying_ = false;
  }

  void OnWriteDone(bool /*ok*/) override {
    outgoing_.Clear();
    bool is_last = false;
    Actions actions;
    {
      const MutexLock lock(session_->mutex_);
      actions = session_->state_.Written(index_);
      is_last = read_ended_;
    }
    session_->Do(actions);
    if (is_last) RemoveHold();
  }

  void OnDone(const grpc::Status& status) override {
    const std::shared_ptr<StreamSession> session = std::move(session_);
    Actions actions;
    {
      const MutexLock lock(session->mutex_);
      session->streams_[static_cast<std::size_t>(index_)] = nullptr;
      actions = session->state_.Ended(index_, StatusOf(status));
    }
    // Its context and stub refer to the channel, which must not end on this thread: its end
    // waits for this.
    delete this;
    session->Do(actions);
    session->count_->End();
  }

 private:
  void OnReadEnd() {
    bool is_writing = false;
    {
      const MutexLock lock(session_->mutex_);
      read_ended_ = true;
      is_writing = session_->state_.ReadEnded(index_);
    }
    if (!is_writing) RemoveHold();
  }

  std::shared_ptr<StreamSession> session_;
  const int index_;
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::ByteBuffer incoming_;
  grpc::ByteBuffer outgoing_;
  bool read_ended_ ABSL_GUARDED_BY(session_->mutex_) = false;
  bool is_copying_ ABSL_GUARDED_BY(session_->mutex_) = false;  // while it reads ahead
};

StreamSession::StreamSession(int streams, std::shared_ptr<CallCount> count)
    : count_(std::move(count)), state_(streams) {}

std::shared_ptr<StreamSession> StreamSession::Open(
    const std::vector<std::shared_ptr<grpc::Channel>>& channels, std::shared_ptr<CallCount> count) {
  const int streams = static_cast<int>(channels.size());
  std::shared_ptr<StreamSession> session(new StreamSession(streams, std::move(count)));
  std::vector<Stream*> started;
  for (int i = 0; i < streams; ++i) {
    session->count_->Begin();
    started.push_back(new Stream(session, i, channels[static_cast<std::size_t>(i)]));
  }
  session->streams_ = started;
  for (Stream* stream : started) stream->Start();
  return session;
}

bool StreamSession::accepting() const {
  const MutexLock lock(mutex_);
  return state_.accepting();
}

bool StreamSession::refused_streams() const {
  const MutexLock lock(mutex_);
  return state_.refused_streams();
}

absl::Status StreamSession::why_ended() const {
  const MutexLock lock(mutex_);
  return state_.why_ended();
}

bool StreamSession::is_unimplemented() const {
  const MutexLock lock(mutex_);
  return state_.is_unimplemented();
}

std::uint64_t StreamSession::Start(StreamRequest request) {
  std::uint64_t id = 0;
  Actions actions;
  {
    const MutexLock lock(mutex_);
    if (!state_.accepting()) return 0;
    actions = state_.Start(std::move(request), &id, notifying == this);
  }
  Do(actions);
  return id;
}

void StreamSession::Flush() {
  Actions actions;
  {
    const MutexLock lock(mutex_);
    actions = state_.Flush();
  }
  Do(actions);
}

Actions StreamSession::Received(int stream, const ReceivedAnswers& received) {
  if (received.answers.empty()) return state_.ReceivedGarbage();
  if (received.is_batch) return state_.ReceivedBatch(stream, received.answers);
  return state_.Received(stream, received.answers.front());
}

void StreamSession::Cancel(std::uint64_t id) {
  Actions actions;
  {
    const MutexLock lock(mutex_);
    actions = state_.Cancel(id);
  }
  Do(actions);
}

void StreamSession::Close(const absl::Status& why) {
  Actions actions;
  {
    const MutexLock lock(mutex_);
    actions = state_.Close(why);
  }
  Do(actions);
}

void StreamSession::Do(const Actions& actions) {
  if (actions.cancel_streams) {
    // Locked, so that none ends meanwhile. gRPC calls nobody back from within.
    const MutexLock lock(mutex_);
    for (Stream* stream : streams_) {
      if (stream != nullptr) stream->Cancel();
    }
  }
  if (actions.wake != absl::InfiniteFuture()) WakeAt(actions.wake);
  for (const Outgoing& message : actions.writes) {
    // This takes no lock: a stream does not end before its write is over.
    streams_[static_cast<std::size_t>(message.stream)]->Write(message);
  }
  for (const ChunkCopy& copy : actions.copies) {
    const v1::Chunk& chunk = copy.from->message.chunk();
    const std::uint64_t bytes = copy.into->Copy(chunk.offset_bytes(), copy.from->payload.of(chunk));
    Actions next;
    {
      const MutexLock lock(mutex_);
      next = state_.Copied(copy.request_id, bytes);
    }
    Do(next);
  }
  if (actions.ends.size() > 1) return NotifyTogether(actions);
  for (const StreamEnd& end : actions.ends) Notify(end);
}

void StreamSession::NotifyTogether(const Actions& actions) {
  const StreamSession* const outer = std::exchange(notifying, this);
  for (std::size_t i = 0; i < actions.ends.size(); ++i) {
    Notify(actions.ends[i]);
    if (i % kToldTogether == kToldTogether - 1) Flush();
  }
  notifying = outer;
  Flush();
}

void StreamSession::WakeAt(absl::Time time) {
  // The alarm lives until it has rung; deleting one from its own callback is allowed.
  auto* alarm = new grpc::Alarm;
  alarm->Set(absl::ToChronoTime(time), [alarm, time, weak = weak_from_this()](bool) {
    if (const std::shared_ptr<StreamSession> session = weak.lock()) {
      Actions actions;
      {
        const MutexLock lock(session->mutex_);
        actions = session->state_.Wake(time);
      }
      session->Do(actions);
    }
    delete alarm;
  });
}

}  // namespace gemmd::client
