// Limits the calls that may take long to bring their message.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "base/sync/mutex.h"

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
  explicit SlowCalls(Limits limits) : limits_(std::move(limits)) {}

  // Counts a call of the address. RESOURCE_EXHAUSTED, with a time to retry: one more than may be.
  absl::Status Add(const std::string& address);
  // REQUIRES: it was added.
  void Remove(const std::string& address);

 private:
  const Limits limits_;
  Mutex mutex_;
  std::size_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, std::size_t> addresses_ ABSL_GUARDED_BY(mutex_);  // calls; none is zero
};

}  // namespace gemmd
