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
  loop_began_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadExecutor::Run(std::int64_t count,
                         absl::FunctionRef<void(int worker, std::int64_t index)> body) {
  const int helpers =
      static_cast<int>(std::min(static_cast<std::int64_t>(threads_.size()), count - 1));
  Loop loop{body, count};
  if (helpers <= 0) return TakeIndices(0, &loop);
  {
    const MutexLock lock(mutex_);
    loop.wanted_workers = helpers;
    loops_.push_back(&loop);
  }
  for (int i = 0; i < helpers; ++i) loop_began_.notify_one();
  TakeIndices(0, &loop);
  const MutexLock lock(mutex_);
  if (loop.wanted_workers > 0) loops_.erase(std::find(loops_.begin(), loops_.end(), &loop));
  while (loop.busy_workers > 0) worker_left_.wait(mutex_);
}

void ThreadExecutor::Work(int worker) {
  RelockableMutexLock lock(mutex_);
  while (true) {
    while (!stopping_ && loops_.empty()) loop_began_.wait(mutex_);
    if (stopping_) return;
    Loop* const loop = loops_.front();
    loops_.pop_front();
    // Behind the others, so that all get help.
    if (--loop->wanted_workers > 0) loops_.push_back(loop);
    ++loop->busy_workers;
    lock.unlock();
    TakeIndices(worker, loop);
    lock.lock();
    if (--loop->busy_workers == 0) worker_left_.notify_all();
  }
}

void ThreadExecutor::TakeIndices(int worker, Loop* loop) {
  while (true) {
    const std::int64_t index = loop->next.fetch_add(1, std::memory_order_relaxed);
    if (index >= loop->count) return;
    loop->body(worker, index);
  }
}

}  // namespace gemmd
