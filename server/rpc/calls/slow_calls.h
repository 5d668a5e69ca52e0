// Limits the calls that may take long to bring their message.
#pragma once

#include <cstddef>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "server/holdings/ledger.h"

namespace gemmd {

// gRPC keeps what has come of a message until it is whole, and does not say how much that is. So a
// call that takes more than a moment counts as the largest message there is. Thread-safe.
class SlowCalls {
 public:
  struct Limits {
    std::size_t all = 16;
    std::size_t per_address = 8;
    std::set<std::string> proxies;  // addresses that many clients share, and that have no limit
  };
  explicit SlowCalls(const Limits& limits);

  // Counts a call of the address. RESOURCE_EXHAUSTED, with a time to retry: one more than may be.
  absl::StatusOr<Hold> Take(const std::string& address);

  const Ledger& ledger() const { return ledger_; }

 private:
  const std::set<std::string> proxies_;
  Ledger ledger_;
};

}  // namespace gemmd
