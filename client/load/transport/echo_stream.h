// The streamed half of the bare echo: messages on open streams, answered one for one.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/sync/mutex.h"
#include "client/calls/call_count.h"
#include "client/calls/timer.h"
#include "grpcpp/channel.h"
#include "grpcpp/support/byte_buffer.h"

namespace gemmd::load {

// The messages of one request: `messages` of `message`, each answered with answer_bytes.
struct EchoMessages {
  std::string method;
  grpc::ByteBuffer message;
  std::uint64_t messages = 1;
  std::uint64_t answer_bytes = 0;
};

// Streams that share one queue of messages: whichever has written its last takes the next, as
// in client/stream. Thread-safe.
class EchoStreams {
 public:
  // One stream a channel, which must outlive this.
  EchoStreams(const std::vector<std::shared_ptr<grpc::Channel>>& channels,
              const EchoMessages& messages);
  // REQUIRES: every request has ended; not on a thread of gRPC's.
  ~EchoStreams();
  EchoStreams(const EchoStreams&) = delete;
  EchoStreams& operator=(const EchoStreams&) = delete;

  // `done` runs once, when all answers have come or the streams have ended, on a thread of
  // gRPC's.
  using Done = std::function<void(absl::StatusCode)>;
  void Send(Done done);

 private:
  class Stream;
  struct Request {
    std::uint64_t to_send;
    std::uint64_t to_receive;
    absl::StatusCode code = absl::StatusCode::kOk;
    Done done;
  };
  using Requests = std::vector<Request*>;

  // The next free streams, which are taken to be writing.
  std::vector<Stream*> Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Write(const std::vector<Stream*>& streams);
  // One answer, or the lack of one; true where the request is done. REQUIRES: locked.
  static bool Received(Request* request, absl::StatusCode code);

  const EchoMessages messages_;
  const std::shared_ptr<client::Timer> timer_ = client::MakeAlarmTimer();
  const std::shared_ptr<client::CallCount> streams_count_ = std::make_shared<client::CallCount>();
  Mutex mutex_;
  std::vector<std::unique_ptr<Stream>> streams_ ABSL_GUARDED_BY(mutex_);
  std::deque<Request*> queue_ ABSL_GUARDED_BY(mutex_);  // with messages to send
  std::size_t ended_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::StatusCode end_code_ ABSL_GUARDED_BY(mutex_) = absl::StatusCode::kUnavailable;
};

}  // namespace gemmd::load
