// Renews a lease in the background, long before it ends.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/calls/timer.h"

namespace gemmd::client {

// Asks again after a third of each lease. A failed renewal is retried sooner: after 100 ms, then
// twice as long each time, up to that third. NOT_FOUND ends it: the lease has ended, or its server
// has.
//
// No thread of its own: asking begins on the timer's, and the answer says when it goes on.
class LeaseRenewal {
 public:
  // The lease from now on.
  using Done = std::function<void(absl::StatusOr<absl::Duration>)>;
  // Asks the server, and calls `done` once, on any thread.
  using Ask = std::function<void(Done done)>;

  // `lease`: what is left of it now.
  LeaseRenewal(absl::Duration lease, Ask ask, std::shared_ptr<Timer> timer);
  // Waits for an answer that is under way; nothing is asked from then on, and `ask` is gone. So it
  // must not happen in a callback of `ask`.
  ~LeaseRenewal();
  LeaseRenewal(const LeaseRenewal&) = delete;
  LeaseRenewal& operator=(const LeaseRenewal&) = delete;

 private:
  struct State;
  static void AskAfter(absl::Duration delay, const std::shared_ptr<State>& state);
  static void AskNow(const std::shared_ptr<State>& state);
  static void OnAnswer(const std::shared_ptr<State>& state,
                       const absl::StatusOr<absl::Duration>& lease);

  const std::shared_ptr<State> state_;  // which a timer may hold for longer
};

}  // namespace gemmd::client
