// The log of refusals, and of calls that looked or reached into the server.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/sync/mutex.h"
#include "base/time/clock.h"
#include "server/auth/identity.h"

namespace gemmd {

// One line for each, but no more of a kind than a disk can bear: the next one that is written says
// how many were left out. Thread-safe.
class AuditLog {
 public:
  // A call, as the log names it. Texts of a client are cut as errors cut them.
  struct Call {
    absl::string_view method;
    absl::string_view peer;
    absl::string_view who;     // Identity::name; empty: nobody knows
    absl::string_view tenant;  // a claim, unless `who` is known
  };

  // The clock outlives the log.
  explicit AuditLog(const Clock* clock) : clock_(clock) {}

  void Refused(const Call& call, const absl::Status& why);
  // Logs a refusal of a tenant that has used up its quota.
  void OverQuota(const Tenant& tenant, const absl::Status& why);
  // Logs a call of a method that is_audited.
  void Served(const Call& call);

 private:
  struct Kind {
    // Paid as for connections (server/net/connection_table.h): each line is an interval.
    TimeNs paid_until = std::numeric_limits<TimeNs>::min();
    std::uint64_t left_out = 0;
  };

  // Returns how many lines of the kind were left out before this one; nothing where this one may
  // not be written.
  std::optional<std::uint64_t> Take(Kind* kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock* const clock_;
  Mutex mutex_;
  Kind refused_ ABSL_GUARDED_BY(mutex_);
  Kind over_quota_ ABSL_GUARDED_BY(mutex_);
  Kind served_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd
