// A fixed set of threads that work on one loop at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/sync/mutex.h"
#include "kernels/gemm.h"

namespace gemmd {

// Run() takes part in the work as worker 0, so `workers` threads compute and
// workers - 1 are started. It wakes no more of them than there are indices for, and waits for
// none that has not begun when all are taken: waking a thread may take longer than a small loop.
// REQUIRES: one Run() at a time.
class ThreadExecutor final : public ParallelExecutor {
 public:
  explicit ThreadExecutor(int workers);
  ~ThreadExecutor() override;

  void Run(std::int64_t count,
           absl::FunctionRef<void(int worker, std::int64_t index)> body) override;
  int workers() const override { return static_cast<int>(threads_.size()) + 1; }

 private:
  using Body = absl::FunctionRef<void(int worker, std::int64_t index)>;

  void Work(int worker);
  void TakeIndices(int worker, const Body& body, std::int64_t count);

  // The loop that runs now; next_ is taken by the workers without the lock.
  std::atomic<std::int64_t> next_{0};

  Mutex mutex_;
  CondVar loop_changed_;
  CondVar workers_done_;
  const Body* body_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::int64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  int wanted_workers_ ABSL_GUARDED_BY(mutex_) = 0;  // may still join the loop
  int busy_workers_ ABSL_GUARDED_BY(mutex_) = 0;    // have joined it
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::vector<std::thread> threads_;  // last: started when all else exists
};

}  // namespace gemmd
