// Numbered places that one request at a time has: payloads whose D two would write into, or calls
// that a connection carries at once.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <vector>

#include "base/sync/mutex.h"

namespace gemmd::load {

// Thread-safe.
class Places {
 public:
  explicit Places(std::size_t places);

  // Runs `use` with one that is free, now or when another request has given one back.
  using Use = std::function<void(std::size_t place)>;
  void Take(Use use);
  void GiveBack(std::size_t place);

 private:
  Mutex mutex_;
  std::vector<std::size_t> free_ ABSL_GUARDED_BY(mutex_);
  std::deque<Use> waiting_ ABSL_GUARDED_BY(mutex_);  // the first came first
};

}  // namespace gemmd::load
