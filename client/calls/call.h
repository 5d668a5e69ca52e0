// One unary call with its attempts: what client.cc is made of, private to it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/calls/call_count.h"
#include "client/calls/servers.h"
#include "client/calls/timer.h"
#include "client/retry.h"
#include "client/status.h"
#include "grpcpp/client_context.h"

namespace gemmd::client {

struct CallTimes {
  int attempts = 0;
  absl::Duration waited;      // between attempts
  absl::Duration round_trip;  // of the last attempt
};

// Keeps itself alive until `done` has run, which happens exactly once. No locks: every
// step is started by the one before it.
template <typename Request, typename Response>
class UnaryCall : public std::enable_shared_from_this<UnaryCall<Request, Response>> {
 public:
  using Start = std::function<void(const Server&, grpc::ClientContext*, const Request*, Response*,
                                   std::function<void(grpc::Status)>)>;
  // The response may be moved from; it is meaningful where the status is OK.
  using Done = std::function<void(const absl::Status&, Response*, const CallTimes&)>;

  // `count` counts this call from here until nothing of it holds the channel.
  UnaryCall(std::shared_ptr<CallCount> count, Servers& servers, TourPlan plan,
            const RetryPolicy& policy, std::shared_ptr<Timer> timer, absl::Time deadline,
            Request request, Start start, Done done)
      : count_(std::move(count)),
        tour_(servers, std::move(plan)),
        retries_(policy, deadline),
        timer_(std::move(timer)),
        deadline_(deadline),
        request_(std::move(request)),
        start_(std::move(start)),
        done_(std::move(done)) {
    count_->Begin();
  }

  void Attempt() {
    ++times_.attempts;
    if (const absl::Status status = tour_.Begin(); !status.ok()) return Conclude(status, {});
    context_.emplace();
    if (deadline_ != absl::InfiniteFuture()) context_->set_deadline(absl::ToChronoTime(deadline_));
    response_.Clear();
    started_ = std::chrono::steady_clock::now();
    start_(*tour_.server(), &*context_, &request_, &response_,
           [self = this->shared_from_this()](const grpc::Status& status) { self->Finish(status); });
  }

 private:
  void Finish(const grpc::Status& grpc_status) {
    times_.round_trip = absl::FromChrono(std::chrono::steady_clock::now() - started_);
    Conclude(FromGrpc(grpc_status), ServersPushback());
  }

  void Conclude(const absl::Status& answered, const Pushback& pushback) {
    absl::Status status = tour_.End(answered);
    if (!status.ok()) {
      if (const auto delay = retries_.Fail(status, pushback, absl::Now(), tour_.HasOther())) {
        times_.waited += *delay;
        timer_->After(*delay, [self = this->shared_from_this()] { self->Attempt(); });
        return;
      }
      status = retries_.ErrorOf(status);
    }
    done_(status, &response_, times_);
    // The context refers to the channel. If that reference were the last, the channel would end on
    // this thread, which is one of those that its end waits for.
    context_.reset();
    tour_.Leave();
    count_->End();
  }

  Pushback ServersPushback() const {
    const auto& metadata = context_->GetServerTrailingMetadata();
    const auto found = metadata.find(grpc::string_ref(kPushbackKey.data(), kPushbackKey.size()));
    if (found == metadata.end()) return ParsePushback(std::nullopt);
    return ParsePushback(absl::string_view(found->second.data(), found->second.size()));
  }

  const std::shared_ptr<CallCount> count_;
  Tour tour_;
  Retries retries_;
  const std::shared_ptr<Timer> timer_;
  const absl::Time deadline_;
  const Request request_;
  const Start start_;
  const Done done_;

  std::optional<grpc::ClientContext> context_;  // of the present attempt
  Response response_;
  std::chrono::steady_clock::time_point started_;
  CallTimes times_;
};

}  // namespace gemmd::client
