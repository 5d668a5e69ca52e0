// One product with its attempts, over either transport: what client.cc is made of, private to
// it.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/sync/mutex.h"
#include "client/calls/call_count.h"
#include "client/calls/operand_link.h"
#include "client/calls/refiller.h"
#include "client/calls/timer.h"
#include "client/channel.h"
#include "client/matmul.h"
#include "client/pending_matmul.h"
#include "client/result.h"
#include "client/retry.h"
#include "client/route.h"
#include "client/stream/session_pool.h"
#include "client/wire/codec.h"
#include "client/wire/trace_headers.h"
#include "grpcpp/client_context.h"
#include "grpcpp/generic/generic_stub.h"

namespace gemmd::client {

// The state that all products of one client share. Thread-safe.
struct MatmulLink {
  MatmulLink(const ChannelOptions& channel_options, const OperandLink& operands, int streams)
      : retry(operands.retry),
        timer(operands.timer),
        stub(operands.channel),
        sessions(channel_options, operands.channel, streams),
        refiller(operands) {}

  const RetryPolicy retry;
  const std::shared_ptr<Timer> timer;
  std::shared_ptr<CallCount> calls;
  int max_channels = 1;
  grpc::GenericStub stub;
  SessionPool sessions;
  Refiller refiller;
  std::atomic<bool> can_stream = true;
  std::atomic<int> in_flight = 0;
  std::atomic<double> connection_bytes_per_s = 0;  // UpdateRate(); a lost update does no harm
};

// Keeps itself alive until `done` has run, which happens exactly once. The steps follow one
// another; only Cancel() comes from outside.
class MatmulAttempts final : public PendingMatmul,
                             public std::enable_shared_from_this<MatmulAttempts> {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Done = std::function<void(absl::StatusOr<Product>)>;

  // `link` lives until its CallCount has counted this call's end.
  MatmulAttempts(MatmulLink& link, std::shared_ptr<const EncodedMatmul> matmul,
                 const RouteOptions& route, absl::Time deadline, const TraceHeaders& trace,
                 TimePoint begun, absl::Duration encode, Done done);

  void Attempt();
  void Cancel() override;

 private:
  void AttemptUnary();
  void AttemptStream();
  void OnUnary(const grpc::Status& status);
  void OnStream(absl::StatusOr<Answer> answer, const Pushback& pushback);

  void Succeed(Answer answer);
  // Returns the operands that the status says are missing, as far as their bytes are here.
  std::vector<OperandSource> LostBy(const absl::Status& status) const;
  // Has them brought back, and tries again.
  void Refill(std::vector<OperandSource> lost);
  // Fails the attempt whose stream has ended; from then on goes without streams if the server knows
  // none.
  void FailStream(const StreamSession& session, const absl::Status& status,
                  const Pushback& pushback);
  // Tries again, or ends.
  void Fail(const absl::Status& answered, const Pushback& pushback);
  void End(absl::StatusOr<Product> product);

  void Measure(const v1::Receipt& receipt) const;
  bool is_cancelled();

  MatmulLink& link_;
  std::shared_ptr<const EncodedMatmul> matmul_;  // null once it has ended
  RouteOptions options_;
  const absl::Time deadline_;
  Retries retries_;                                  // those that missed operands count elsewhere
  const std::shared_ptr<const TraceHeaders> trace_;  // null: none
  const TimePoint begun_;
  Done done_;

  TimePoint started_;  // the present attempt
  TimePoint received_;
  Route route_;
  bool alone_ = false;  // no other request was in flight when it was sent
  ClientTimes times_;
  int refills_ = 0;
  grpc::ByteBuffer message_;
  grpc::ByteBuffer answer_;

  Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<grpc::ClientContext> context_ ABSL_GUARDED_BY(mutex_);  // of a unary attempt
  std::shared_ptr<StreamSession> session_ ABSL_GUARDED_BY(mutex_);      // of a streamed one
  std::uint64_t stream_id_ ABSL_GUARDED_BY(mutex_) = 0;                 // 0 until it is known
  int attempt_ ABSL_GUARDED_BY(mutex_) = 0;                             // that the session is of
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace gemmd::client
