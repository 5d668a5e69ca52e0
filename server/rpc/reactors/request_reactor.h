// A call whose client sends a message, and perhaps another one when it has the answer.
#pragma once

#include <atomic>
#include <cstdint>

#include "grpcpp/grpcpp.h"
#include "server/rpc/calls/call_watch.h"

namespace gemmd {

// gRPC receives the message of such a call before it makes a reactor, for as long as its client
// likes. As a stream of one message the call has a reactor from its headers on, which waits for the
// message as long as the watch allows, and for its answer's being read too. On the wire both are
// the same.
class RequestReactor : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                       private WatchedCall {
 public:
  void OnReadDone(bool ok) final;
  void OnDone() final;

 protected:
  // Starts at once; deletes itself when gRPC is done with it. The arguments outlive it.
  RequestReactor(CallWatch* watch, grpc::CallbackServerContext* context);
  ~RequestReactor() override = default;

  // A message. Answer() or Fail() is due, or a write; OnCancel() may come meanwhile.
  virtual void OnMessage(const grpc::ByteBuffer& message) = 0;
  // There is none, and the call ends with this; or it was cancelled, which context() says.
  virtual void OnNoMessage(absl::StatusCode code) { static_cast<void>(code); }
  // Before its end.
  virtual void OnEnd() {}
  // Waits for another message, and ends the call where none is to come. REQUIRES: the last one's
  // answer was written.
  void ReadNext();

  // Each ends the call. Takes the message.
  void Answer(grpc::ByteBuffer* message);
  void Fail(const absl::Status& status) { FinishCall(ToGrpc(status)); }
  void FinishCall(const grpc::Status& status);
  // The client has to take so many bytes, as fast as clients must, until another of these calls.
  // `held_bytes`: of memory that waits for that, if they are more.
  void ExpectRead(std::uint64_t bytes, std::uint64_t held_bytes = 0);
  void ExpectNothing() {
    held_bytes_ = 0;
    SetDue(kNoDeadline);
  }

  grpc::CallbackServerContext* context() const { return context_; }

 private:
  TimeNs OnLate(TimeNs now) final;
  std::uint64_t IdleBytes(TimeNs before) final { return start_ <= before ? held_bytes_.load() : 0; }
  void Recall(TimeNs before) final;
  TimeNs OnSlowMessage(TimeNs now);
  // Returns true to at most one caller, which then decides how the call goes on.
  bool EndReading() { return is_reading_.exchange(false); }
  void LeaveSlowCalls();
  grpc::Status ToGrpc(const absl::Status& status);

  CallWatch* const watch_;
  grpc::CallbackServerContext* const context_;
  void StartReading();

  std::atomic<TimeNs> start_{0};  // of waiting for a message, or for its answer's being read
  std::atomic<std::uint64_t> read_bytes_{0};  // that the client has to take
  std::atomic<std::uint64_t> held_bytes_{0};
  bool has_message_ = false;  // there was one
  grpc::ByteBuffer incoming_;
  grpc::ByteBuffer outgoing_;
  std::atomic<bool> is_reading_{false};
  std::atomic<bool> is_slow_{false};
  Hold slow_;  // a place among the watch's slow calls; theirs who turn is_slow_
};

}  // namespace gemmd
