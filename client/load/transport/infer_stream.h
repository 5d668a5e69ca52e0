// One ModelStreamInfer: many requests in flight, answered by their ids.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/sync/mutex.h"
#include "client/calls/call_count.h"
#include "client/load/transport/infer_message.h"
#include "client/matmul.h"
#include "grpcpp/alarm.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/client_callback.h"

namespace gemmd::load {

// A request on its way, and its caller.
struct InferCall {
  std::shared_ptr<const EncodedInfer> request;
  absl::Time deadline = absl::InfiniteFuture();
  std::function<void(const absl::StatusOr<client::Product>&)> done;
};

// Fills in the times that the client measures: when the request was handed to gRPC, when the answer
// had come, and now, when it is decoded.
void SetClientTimes(absl::Time sent, absl::Time received, client::Product* product);

// Thread-safe.
//
// The protocol has no deadline for a request of a stream, so it is kept here: a request whose time
// is over ends with DEADLINE_EXCEEDED, and the answer that comes later is passed over.
// An answer to no request ends the stream, with INTERNAL for all that is in flight.
class InferStream final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  // Opens one for a first request. It keeps itself until it has ended and its alarm has rung.
  // `count` counts it until it is gone.
  static std::shared_ptr<InferStream> Open(const std::shared_ptr<grpc::Channel>& channel,
                                           std::shared_ptr<client::CallCount> count,
                                           const InferCall& first);

  // False, with nothing done: the stream has ended and takes no more. `done` runs on a thread of
  // gRPC's, once, and never within this. REQUIRES: deadlines do not go back from one request to the
  // next.
  bool Send(const InferCall& call);
  void Cancel() { context_.TryCancel(); }

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

 private:
  struct InFlight {
    InferCall call;
    absl::Time sent;
  };
  using Ended = std::pair<InferCall, absl::StatusOr<client::Product>>;

  InferStream(const std::shared_ptr<grpc::Channel>& channel,
              std::shared_ptr<client::CallCount> count)
      : counted_(std::move(count)), stub_(channel) {}

  // Takes the answered request out. INTERNAL: it is no answer to one that was sent. Without a value
  // where the request's time was over before.
  absl::StatusOr<std::unique_ptr<Ended>> Receive(absl::Time received);
  // Returns whether there is one to be written, which then lies in outgoing_.
  bool TakeFrontLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // REQUIRES: something is in flight, and the stream has a hold.
  void ArmLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnAlarm();

  const client::CountedCall counted_;
  std::shared_ptr<InferStream> self_;  // until OnDone()
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::ByteBuffer incoming_;
  grpc::ByteBuffer outgoing_;

  Mutex mutex_;
  std::uint64_t next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  std::map<std::uint64_t, InFlight> in_flight_ ABSL_GUARDED_BY(mutex_);  // the oldest first
  std::deque<std::uint64_t> to_write_ ABSL_GUARDED_BY(mutex_);  // the first one is being written
  bool read_ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status broken_ ABSL_GUARDED_BY(mutex_);                 // by an answer; OK: it is not
  std::shared_ptr<grpc::Alarm> alarm_ ABSL_GUARDED_BY(mutex_);  // null: none is set
};

}  // namespace gemmd::load
