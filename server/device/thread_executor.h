// A fixed set of threads that help with loops.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <thread>
#include <vector>

#include "base/sync/mutex.h"
#include "kernels/gemm.h"

namespace gemmd {

// Run() takes part in the work as worker 0, so `workers` threads compute and
// workers - 1 are started. It wakes no more of them than there are indices for, and waits for
// none that has not begun when all are taken: waking a thread may take longer than a small loop.
// Several threads may call Run() at once. Their loops share the started threads, and one that finds
// none free is carried out by its caller alone.
class ThreadExecutor final : public ParallelExecutor {
 public:
  explicit ThreadExecutor(int workers);
  ~ThreadExecutor() override;

  void Run(std::int64_t count,
           absl::FunctionRef<void(int worker, std::int64_t index)> body) override;
  int workers() const override { return static_cast<int>(threads_.size()) + 1; }

 private:
  struct Loop {
    absl::FunctionRef<void(int worker, std::int64_t index)> body;
    std::int64_t count = 0;
    std::atomic<std::int64_t> next{0};  // workers take it without the lock
    // Guarded by mutex_.
    int wanted_workers = 0;  // may still join
    int busy_workers = 0;    // have joined
  };

  void Work(int worker);
  static void TakeIndices(int worker, Loop* loop);

  Mutex mutex_;
  CondVar loop_began_;
  CondVar worker_left_;
  std::deque<Loop*> loops_ ABSL_GUARDED_BY(mutex_);  // that want workers, in turn
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::vector<std::thread> threads_;  // last: started when all else exists
};

}  // namespace gemmd
