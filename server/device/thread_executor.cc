#include "server/device/thread_executor.h"

namespace gemmd {

ThreadExecutor::ThreadExecutor(int workers) {
  threads_.reserve(workers - 1);
  for (int worker = 1; worker < workers; ++worker) {
    threads_.emplace_back([this, worker] { Work(worker); });
  }
}

ThreadExecutor::~ThreadExecutor() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  loop_changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadExecutor::Run(std::int64_t count, Body body) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    next_.store(0, std::memory_order_relaxed);
    body_ = &body;
    count_ = count;
    ++generation_;
    busy_workers_ = static_cast<int>(threads_.size());
  }
  loop_changed_.notify_all();
  TakeIndices(0, body, count);
  std::unique_lock<std::mutex> lock(mutex_);
  workers_done_.wait(lock, [this] { return busy_workers_ == 0; });
}

void ThreadExecutor::Work(int worker) {
  std::uint64_t seen_generation = 0;
  while (true) {
    const Body* body;
    std::int64_t count;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      loop_changed_.wait(lock, [&] { return stopping_ || generation_ != seen_generation; });
      if (stopping_) return;
      seen_generation = generation_;
      body = body_;
      count = count_;
    }
    TakeIndices(worker, *body, count);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      --busy_workers_;
    }
    workers_done_.notify_one();
  }
}

void ThreadExecutor::TakeIndices(int worker, const Body& body, std::int64_t count) {
  while (true) {
    const std::int64_t index = next_.fetch_add(1, std::memory_order_relaxed);
    if (index >= count) return;
    body(worker, index);
  }
}

}  // namespace gemmd
