// One stream of MatmulStream: brings its events to a session and sends what the session has
// for it, one message at a time in each direction.
#pragma once

#include <memory>
#include <vector>

#include "gemmd/v1/gemm.pb.h"
#include "grpcpp/grpcpp.h"
#include "proto/payload_codec.h"
#include "server/rpc/codec/decode.h"
#include "server/rpc/reactors/inbox.h"
#include "server/rpc/reactors/session_reactor.h"

namespace gemmd {

class MatmulStreamReactor final : public SessionReactor {
 public:
  // Starts at once; lives until gRPC is done with it.
  static MatmulStreamReactor* Start(const Services& services, const Login& login,
                                    grpc::CallbackServerContext* context);

  void OnReadDone(bool ok) override;

 private:
  MatmulStreamReactor(const Services& services, const Login& login,
                      grpc::CallbackServerContext* context)
      : SessionReactor(services, login, context) {}

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

  grpc::ByteBuffer Encode(const std::vector<Outgoing>& message) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasRoomLocked() const override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Inbox<ReceivedPtr> inbox_ ABSL_GUARDED_BY(mutex_){{}};
  int copies_ ABSL_GUARDED_BY(mutex_) = 0;  // chunks that are being copied
  bool input_ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace gemmd
