#include "server/device/thread_executor.h"

#include <algorithm>

namespace gemmd {

ThreadExecutor::ThreadExecutor(int workers) {
  threads_.reserve(workers - 1);
  for (int worker = 1; worker < workers; ++worker) {
    threads_.emplace_back([this, worker] { Work(worker); });
  }
}

ThreadExecutor::~ThreadExecutor() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  loop_changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadExecutor::Run(std::int64_t count, Body body) {
  const int helpers =
      static_cast<int>(std::min(static_cast<std::int64_t>(threads_.size()), count - 1));
  next_.store(0, std::memory_order_relaxed);
  if (helpers <= 0) return TakeIndices(0, body, count);
  {
    const MutexLock lock(mutex_);
    body_ = &body;
    count_ = count;
    wanted_workers_ = helpers;
  }
  for (int i = 0; i < helpers; ++i) loop_changed_.notify_one();
  TakeIndices(0, body, count);
  const MutexLock lock(mutex_);
  wanted_workers_ = 0;
  while (busy_workers_ > 0) workers_done_.wait(mutex_);
}

void ThreadExecutor::Work(int worker) {
  RelockableMutexLock lock(mutex_);
  while (true) {
    while (!stopping_ && wanted_workers_ <= 0) loop_changed_.wait(mutex_);
    if (stopping_) return;
    --wanted_workers_;
    ++busy_workers_;
    const Body* const body = body_;
    const std::int64_t count = count_;
    lock.unlock();
    TakeIndices(worker, *body, count);
    lock.lock();
    if (--busy_workers_ == 0) workers_done_.notify_one();
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
