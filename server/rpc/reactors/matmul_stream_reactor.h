// One stream of MatmulStream: brings its events to a session and sends what the session has
// for it, one message at a time in each direction.
#pragma once

#include <atomic>
#include <memory>

#include "base/sync/mutex.h"
#include "gemmd/v1/gemm.pb.h"
#include "grpcpp/grpcpp.h"
#include "proto/payload_codec.h"
#include "server/admission/admission.h"
#include "server/observe/statistics.h"
#include "server/rpc/calls/authorizer.h"
#include "server/rpc/calls/call_watch.h"
#include "server/rpc/calls/caller.h"
#include "server/rpc/codec/decode.h"
#include "server/rpc/reactors/inbox.h"
#include "server/transfer/matmul_session.h"
#include "server/transfer/session_registry.h"

namespace gemmd {

class MatmulStreamReactor final
    : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
      public std::enable_shared_from_this<MatmulStreamReactor>,
      private WatchedCall {
 public:
  // All outlive the reactor.
  struct Services {
    Admission* admission = nullptr;
    Statistics* statistics = nullptr;
    const Clock* clock = nullptr;
    SessionRegistry* sessions = nullptr;
    std::atomic<int>* active_calls = nullptr;  // see GemmService::active_calls()
    CallWatch* watch = nullptr;
    const Authorizer* authorizer = nullptr;
    MatmulSession::Options session_options;
  };

  // Starts at once; lives until gRPC is done with it.
  static MatmulStreamReactor* Start(const Services& services, const Login& login,
                                    grpc::CallbackServerContext* context);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  MatmulStreamReactor(const Services& services, const Login& login,
                      grpc::CallbackServerContext* context)
      : services_(services), context_(context), login_(login) {}

  // A message and what its payload's views lie in.
  struct Received {
    explicit Received(const grpc::ByteBuffer& message) : bytes(message), size(message.Length()) {}

    const ReceivedMessage bytes;
    const std::uint64_t size;
    v1::MatmulStreamRequest event;
    PayloadViews payload;
    TimeNs arrival = 0;
  };
  using ReceivedPtr = std::shared_ptr<const Received>;

  // Counts it among the active calls. Those that come while the server drains are not, or clients
  // that send more and more would hold up its end; but they may join a session that is older.
  void Count();
  void OnReadEnd();
  // Chooses the session.
  void HandleFirst(const ReceivedPtr& received);
  // Handles what gathers, and reads on meanwhile.
  void HandleInbox();
  // An error is a breach of the protocol.
  absl::Status Handle(const ReceivedPtr& received);
  // Copies a chunk, while others are read.
  void Receive(const v1::Chunk& chunk, const PayloadViews& payload);
  // The client sends nothing more, and all that it sent was handled.
  bool HasNoInputLeft() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return input_ended_ && copies_ == 0 && inbox_.is_idle();
  }
  void EndInput();
  absl::Status Begin(const v1::MatmulStreamRequest::Begin& begin, const ReceivedPtr& received);
  // Chooses the stream's session by its first event.
  absl::Status Enter(const v1::MatmulStreamRequest& first);
  absl::Status AddTo(std::shared_ptr<MatmulSession> session);

  // Sends, closes or reads on, as far as there is cause to.
  void Pump();
  void FinishOnce(const absl::Status& status);
  void FinishLocked(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // From here on the call is cancelled if it has not ended by `due`.
  void EndBy(TimeNs due) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  TimeNs OnLate(TimeNs now) override;
  std::uint64_t IdleBytes(TimeNs before) override;
  void Recall(TimeNs before) override;

  const Services services_;
  grpc::CallbackServerContext* const context_;
  std::shared_ptr<MatmulStreamReactor> self_;  // until OnDone()
  grpc::ByteBuffer incoming_;                  // of the read under way

  // Set by the first event, before another is read, and used by later ones and by what these cause.
  std::shared_ptr<MatmulSession> session_;
  MatmulSession::StreamId stream_ = MatmulSession::kFirst;
  Login login_;
  Caller caller_;
  TraceOrigin trace_;  // of requests that have none of their own
  bool is_counted_ = false;

  Mutex mutex_;
  grpc::ByteBuffer outgoing_ ABSL_GUARDED_BY(mutex_);  // of the write under way
  bool is_writing_ ABSL_GUARDED_BY(mutex_) = false;
  Inbox<ReceivedPtr> inbox_ ABSL_GUARDED_BY(mutex_){{}};
  bool reading_waits_ ABSL_GUARDED_BY(mutex_) = false;
  int copies_ ABSL_GUARDED_BY(mutex_) = 0;  // chunks that are being copied
  bool input_ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool must_end_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace gemmd
