// Threads that carry out tasks in the order they come, several at a time.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"

namespace gemmd {

// Thread-safe.
class WorkerPool {
 public:
  using Task = absl::AnyInvocable<void() &&>;

  explicit WorkerPool(int threads);  // at least 1
  // Carries out what was posted.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  void Post(Task task);

 private:
  void Loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;  // guarded by mutex_
  bool stops_ = false;      // guarded by mutex_

  std::vector<std::thread> threads_;  // last: started when all else exists
};

}  // namespace gemmd
