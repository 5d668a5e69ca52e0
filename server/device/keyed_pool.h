// Threads that carry out tasks: those of one key in the order they come, one at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "base/sync/mutex.h"

namespace gemmd {

// Thread-safe.
class KeyedPool {
 public:
  using Task = absl::AnyInvocable<void() &&>;

  explicit KeyedPool(int threads);  // at least 1
  // Carries out what was posted.
  ~KeyedPool();
  KeyedPool(const KeyedPool&) = delete;
  KeyedPool& operator=(const KeyedPool&) = delete;

  void Post(std::uint64_t key, Task task);

 private:
  void Loop();

  Mutex mutex_;
  CondVar changed_;
  // An entry with no tasks is a key whose last ones are being carried out.
  std::unordered_map<std::uint64_t, std::vector<Task>> tasks_ ABSL_GUARDED_BY(mutex_);
  // Keys with tasks, of which none is being carried out.
  std::deque<std::uint64_t> ready_ ABSL_GUARDED_BY(mutex_);
  bool stops_ ABSL_GUARDED_BY(mutex_) = false;

  std::vector<std::thread> threads_;  // last: started when all else exists
};

}  // namespace gemmd
