// One product with its attempts, over either transport: what client.cc is made of, private to
// it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/sync/mutex.h"
#include "client/calls/matmul_link.h"
#include "client/calls/servers.h"
#include "client/matmul.h"
#include "client/options.h"
#include "client/pending_matmul.h"
#include "client/result.h"
#include "client/retry.h"
#include "client/route.h"
#include "client/stream/stream_session.h"
#include "client/wire/codec.h"
#include "client/wire/trace_headers.h"
#include "grpcpp/client_context.h"

namespace gemmd::client {

// Keeps itself alive until `done` has run, which happens exactly once. The steps follow one
// another; only Cancel() comes from outside.
class MatmulAttempts final : public PendingMatmul,
                             public std::enable_shared_from_this<MatmulAttempts> {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Done = std::function<void(absl::StatusOr<Product>)>;

  // `servers` and `settings` live until the CallCount has counted this call's end.
  MatmulAttempts(Servers& servers, const MatmulSettings& settings,
                 std::shared_ptr<const EncodedMatmul> matmul, const RouteOptions& route,
                 const CallOptions& call, TimePoint begun, absl::Duration encode, Done done);

  void Attempt();
  void Cancel() override;

 private:
  // Begins the attempt at the server that was chosen.
  void AttemptThere();
  void AttemptUnary();
  void AttemptStream();
  void OnUnary(const grpc::Status& status);
  void OnStream(absl::StatusOr<Answer> answer, const Pushback& pushback);

  void Succeed(Answer answer);
  // Returns the operands that the status says are missing, as far as their bytes are here. None
  // where another server may have what is missing besides.
  std::vector<OperandSource> LostBy(const absl::Status& status) const;
  // Has them brought back, and tries again there.
  void Refill(std::vector<OperandSource> lost);
  void AttemptAgain();
  MatmulLink& link() const { return server_->matmul; }
  // Fails the attempt whose stream has ended; from then on goes without streams if the server knows
  // none.
  void FailStream(const StreamSession& session, const absl::Status& status,
                  const Pushback& pushback);
  // Tries again, or ends.
  void Fail(const absl::Status& answered, const Pushback& pushback);
  void End(absl::StatusOr<Product> product);

  void Measure(const v1::Receipt& receipt) const;
  bool is_cancelled();

  const MatmulSettings& settings_;
  std::shared_ptr<const EncodedMatmul> matmul_;  // null once it has ended
  RouteOptions options_;
  Tour tour_;
  std::shared_ptr<Server> server_;  // of the present attempt; null before the first and at the end
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
