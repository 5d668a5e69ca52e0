#include "client/calls/lease_renewal.h"

#include <algorithm>
#include <utility>

#include "base/sync/mutex.h"
#include "client/calls/call_count.h"

namespace gemmd::client {
namespace {

constexpr absl::Duration kFirstRetry = absl::Milliseconds(100);

// Two answers may be lost before a lease ends.
absl::Duration Period(absl::Duration lease) { return lease / 3; }

}  // namespace

struct LeaseRenewal::State {
  State(Ask ask, std::shared_ptr<Timer> timer) : ask(std::move(ask)), timer(std::move(timer)) {}

  Ask ask;  // gone once it has stopped
  const std::shared_ptr<Timer> timer;
  CallCount calls;  // of `ask`, and answers that it owes

  Mutex mutex;
  bool has_stopped ABSL_GUARDED_BY(mutex) = false;
  // Used by one call after another.
  absl::Duration period;
  absl::Duration retry = kFirstRetry;
};

LeaseRenewal::LeaseRenewal(absl::Duration lease, Ask ask, std::shared_ptr<Timer> timer)
    : state_(std::make_shared<State>(std::move(ask), std::move(timer))) {
  state_->period = Period(lease);
  AskAfter(state_->period, state_);
}

LeaseRenewal::~LeaseRenewal() {
  {
    const MutexLock lock(state_->mutex);
    state_->has_stopped = true;
  }
  state_->calls.WaitForNone();
  state_->ask = nullptr;
}

void LeaseRenewal::AskAfter(absl::Duration delay, const std::shared_ptr<State>& state) {
  state->timer->After(delay, [state] { AskNow(state); });
}

void LeaseRenewal::AskNow(const std::shared_ptr<State>& state) {
  {
    const MutexLock lock(state->mutex);
    if (state->has_stopped) return;
    state->calls.Begin();
    state->calls.Begin();
  }
  state->ask([state](const absl::StatusOr<absl::Duration>& lease) {
    OnAnswer(state, lease);
    state->calls.End();
  });
  state->calls.End();
}

void LeaseRenewal::OnAnswer(const std::shared_ptr<State>& state,
                            const absl::StatusOr<absl::Duration>& lease) {
  if (absl::IsNotFound(lease.status())) return;
  if (lease.ok()) {
    state->period = Period(*lease);
    state->retry = kFirstRetry;
    return AskAfter(state->period, state);
  }
  const absl::Duration delay = std::min(state->retry, state->period);
  state->retry = 2 * delay;
  AskAfter(delay, state);
}

}  // namespace gemmd::client
