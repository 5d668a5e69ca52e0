#include "client/load/transport/echo_stream.h"

#include <utility>

#include "grpcpp/client_context.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/client_callback.h"

namespace gemmd::load {

class EchoStreams::Stream final
    : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  Stream(EchoStreams& all, const std::shared_ptr<grpc::Channel>& channel)
      : all_(all), stub_(channel) {}

  void Start() {
    stub_.PrepareBidiStreamingCall(&context_, all_.messages_.method, grpc::StubOptions(), this);
    AddHold();  // until nobody can write any more
    StartRead(&answer_);
    StartCall();
  }

  void OnReadDone(bool ok) override {
    Request* whole = nullptr;
    bool is_last = false;
    {
      const MutexLock lock(all_.mutex_);
      if (ok && !awaiting.empty()) {
        Request* const request = awaiting.front();
        awaiting.pop_front();
        const bool is_right = answer_.Length() == all_.messages_.answer_bytes;
        if (Received(request, is_right ? absl::StatusCode::kOk : absl::StatusCode::kInternal)) {
          whole = request;
        }
      }
      if (!ok) read_ended = true;
      is_last = !ok && !writing;
    }
    if (whole != nullptr) {
      whole->done(whole->code);
      delete whole;
    }
    if (is_last) RemoveHold();
    if (!ok) return;
    answer_.Clear();
    StartRead(&answer_);
  }

  void OnWriteDone(bool /*ok*/) override {
    std::vector<Stream*> next;
    bool is_last = false;
    {
      const MutexLock lock(all_.mutex_);
      writing = false;
      next = all_.Next();
      is_last = read_ended;
    }
    all_.Write(next);
    if (is_last) RemoveHold();
  }

  void OnDone(const grpc::Status& status) override {
    Requests failed;
    const std::shared_ptr<client::CallCount> count = all_.streams_count_;
    {
      const MutexLock lock(all_.mutex_);
      if (!status.ok()) all_.end_code_ = static_cast<absl::StatusCode>(status.error_code());
      ++all_.ended_;
      for (Request* request : awaiting) {
        if (Received(request, all_.end_code_)) failed.push_back(request);
      }
      awaiting.clear();
      // Requests that are not sent yet may still go over another stream.
      while (all_.ended_ == all_.streams_.size() && !all_.queue_.empty()) {
        Request* const request = all_.queue_.front();
        all_.queue_.pop_front();
        while (request->to_send > 0) {
          --request->to_send;
          if (Received(request, all_.end_code_)) failed.push_back(request);
        }
      }
    }
    for (Request* request : failed) {
      request->done(request->code);
      delete request;
    }
    count->End();
  }

  void Write() {
    message_ = all_.messages_.message;
    StartWrite(&message_);
  }
  void Cancel() { context_.TryCancel(); }
  // All streams have one mutex.
  void AssertLocked() const ABSL_ASSERT_EXCLUSIVE_LOCK(all_.mutex_) { all_.mutex_.AssertHeld(); }

  // One for each message without an answer.
  std::deque<Request*> awaiting ABSL_GUARDED_BY(all_.mutex_);
  bool writing ABSL_GUARDED_BY(all_.mutex_) = false;
  bool read_ended ABSL_GUARDED_BY(all_.mutex_) = false;

 private:
  EchoStreams& all_;
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::ByteBuffer message_;
  grpc::ByteBuffer answer_;
};

EchoStreams::EchoStreams(const std::vector<std::shared_ptr<grpc::Channel>>& channels,
                         const EchoMessages& messages)
    : messages_(messages) {
  for (const auto& channel : channels) {
    streams_count_->Begin();
    streams_.push_back(std::make_unique<Stream>(*this, channel));
  }
  for (const auto& stream : streams_) stream->Start();
}

EchoStreams::~EchoStreams() {
  for (const auto& stream : streams_) stream->Cancel();
  streams_count_->WaitForNone();
}

void EchoStreams::Send(Done done) {
  auto* request =
      new Request{messages_.messages, messages_.messages, absl::StatusCode::kOk, std::move(done)};
  std::vector<Stream*> next;
  bool is_ended = false;
  absl::StatusCode code = absl::StatusCode::kOk;
  {
    const MutexLock lock(mutex_);
    is_ended = ended_ == streams_.size();
    code = end_code_;
    if (!is_ended) queue_.push_back(request);
    next = Next();
  }
  Write(next);
  if (!is_ended) return;
  // The callback does not run here: it may send again, and so on without an end.
  timer_->After(absl::ZeroDuration(), [request, code] {
    request->done(code);
    delete request;
  });
}

std::vector<EchoStreams::Stream*> EchoStreams::Next() {
  std::vector<Stream*> next;
  for (const auto& stream : streams_) {
    if (queue_.empty()) break;
    stream->AssertLocked();
    if (stream->writing || stream->read_ended) continue;
    Request* const request = queue_.front();
    if (--request->to_send == 0) queue_.pop_front();
    stream->awaiting.push_back(request);
    stream->writing = true;
    next.push_back(stream.get());
  }
  return next;
}

void EchoStreams::Write(const std::vector<Stream*>& streams) {
  for (Stream* stream : streams) stream->Write();
}

bool EchoStreams::Received(Request* request, absl::StatusCode code) {
  if (code != absl::StatusCode::kOk) request->code = code;
  return --request->to_receive == 0;
}

}  // namespace gemmd::load
