// A session over gRPC: session_state.h with sockets.
#pragma once

#include <memory>
#include <vector>

#include "base/sync/mutex.h"
#include "client/calls/call_count.h"
#include "client/stream/session_state.h"
#include "grpcpp/channel.h"

namespace gemmd::client {

// The answers of one message: of a batch, or a single one. None where its bytes are no message of
// the contract.
struct ReceivedAnswers {
  std::vector<std::shared_ptr<StreamAnswer>> answers;
  bool is_batch = false;
};

// Thread-safe. Callbacks run on gRPC's threads or on the caller's, never under a lock; each
// stream has one write under way at most, so gRPC holds one chunk of each.
class StreamSession : public std::enable_shared_from_this<StreamSession> {
 public:
  // One stream a channel. `count` counts the streams until nothing of them
  // holds a channel.
  static std::shared_ptr<StreamSession> Open(
      const std::vector<std::shared_ptr<grpc::Channel>>& channels,
      std::shared_ptr<CallCount> count);
  StreamSession(const StreamSession&) = delete;
  StreamSession& operator=(const StreamSession&) = delete;

  bool accepting() const;
  bool refused_streams() const;
  int streams() const { return static_cast<int>(streams_.size()); }
  // REQUIRES: !accepting().
  absl::Status why_ended() const;
  bool is_unimplemented() const;

  // Returns the request's id; 0 where the session no longer accepts, and then nothing happened.
  std::uint64_t Start(StreamRequest request);
  void Cancel(std::uint64_t id);
  // Requests in flight end with `why`. The session lives until its streams have ended.
  void Close(const absl::Status& why);

 private:
  class Stream;

  StreamSession(int streams, std::shared_ptr<CallCount> count);

  // Does what is to be done, and what follows from that.
  void Do(const Actions& actions) ABSL_LOCKS_EXCLUDED(mutex_);
  // Requests that the callbacks start go out together, as the results came: a request costs little
  // more than its message.
  void NotifyTogether(const Actions& actions);
  void WakeAt(absl::Time time);
  // Sends what was started.
  void Flush();
  Actions Received(int stream, const ReceivedAnswers& received)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<CallCount> count_;
  mutable Mutex mutex_;
  SessionState state_ ABSL_GUARDED_BY(mutex_);
  // Each until it has ended, then null. Guarded by mutex_, but for streams that are written to.
  std::vector<Stream*> streams_;
};

}  // namespace gemmd::client
