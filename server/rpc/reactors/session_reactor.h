// One stream of a session: sends what the session has for it, one message at a time, and ends when
// the session does. A subclass knows the messages that come over it.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "base/sync/mutex.h"
#include "grpcpp/grpcpp.h"
#include "server/admission/admission.h"
#include "server/observe/statistics.h"
#include "server/rpc/calls/authorizer.h"
#include "server/rpc/calls/call_watch.h"
#include "server/rpc/calls/caller.h"
#include "server/transfer/matmul_session.h"
#include "server/transfer/session_registry.h"

namespace gemmd {

class SessionReactor : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                       public std::enable_shared_from_this<SessionReactor>,
                       protected WatchedCall {
 public:
  // All outlive the reactor.
  struct Services {
    Admission* admission = nullptr;
    Statistics* statistics = nullptr;
    const Clock* clock = nullptr;
    SessionRegistry* sessions = nullptr;
    // Counts the streams that came before the drain, and that gRPC is not done with.
    std::atomic<int>* active_calls = nullptr;
    CallWatch* watch = nullptr;
    const Authorizer* authorizer = nullptr;
    MatmulSession::Options session_options;
  };

  void OnWriteDone(bool ok) final;
  void OnCancel() final;
  void OnDone() final;

 protected:
  SessionReactor(const Services& services, const Login& login, grpc::CallbackServerContext* context)
      : services_(services), context_(context), login_(login) {}
  ~SessionReactor() override = default;

  // Begins to read. The reactor lives until gRPC is done with it. REQUIRES: a shared pointer owns
  // it.
  void Start();
  // Counts it among the active calls. Those that come while the server drains are not, or clients
  // that send more and more would hold up its end; but they may join a session that is older.
  void Count();
  absl::Status AddTo(std::shared_ptr<MatmulSession> session);
  // Sends, closes or reads on, as far as there is cause to.
  void Pump();
  void FinishOnce(const absl::Status& status);

  // The message that says this. REQUIRES: it is not empty.
  virtual grpc::ByteBuffer Encode(const std::vector<Outgoing>& message)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;
  // Returns whether another message may come, by what the stream itself has in hand.
  virtual bool HasRoomLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;

  const Services services_;
  grpc::CallbackServerContext* const context_;
  grpc::ByteBuffer incoming_;  // of the read under way

  // Set before another message than the first is read, and used by later ones and by what these
  // cause.
  std::shared_ptr<MatmulSession> session_;
  MatmulSession::StreamId stream_ = MatmulSession::kFirst;
  Login login_;
  Caller caller_;
  TraceOrigin trace_;  // of requests that have none of their own

  mutable Mutex mutex_;
  bool reading_waits_ ABSL_GUARDED_BY(mutex_) = false;  // the next message is to be read

 private:
  void FinishLocked(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // From here on the call is cancelled if it has not ended by `due`.
  void EndBy(TimeNs due) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  TimeNs OnLate(TimeNs now) final;
  std::uint64_t IdleBytes(TimeNs before) final;
  void Recall(TimeNs before) final;

  std::shared_ptr<SessionReactor> self_;  // until OnDone()
  bool is_counted_ = false;
  grpc::ByteBuffer outgoing_ ABSL_GUARDED_BY(mutex_);  // of the write under way
  bool is_writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool must_end_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace gemmd
