#include "server/device/keyed_pool.h"

#include <utility>

namespace gemmd {

KeyedPool::KeyedPool(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Loop(); });
}

KeyedPool::~KeyedPool() {
  {
    const MutexLock lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void KeyedPool::Post(std::uint64_t key, Task task) {
  const MutexLock lock(mutex_);
  const auto [position, is_new] = tasks_.try_emplace(key);
  position->second.push_back(std::move(task));
  if (!is_new) return;
  ready_.push_back(key);
  // Under the lock: once the task is done, its poster's pool may go.
  changed_.notify_one();
}

void KeyedPool::Loop() {
  RelockableMutexLock lock(mutex_);
  while (true) {
    while (!stops_ && ready_.empty()) changed_.wait(mutex_);
    if (ready_.empty()) return;
    const std::uint64_t key = ready_.front();
    ready_.pop_front();
    std::vector<Task> tasks;
    tasks.swap(tasks_[key]);
    lock.unlock();
    for (Task& task : tasks) std::move(task)();
    tasks.clear();
    lock.lock();
    const auto position = tasks_.find(key);
    if (position->second.empty()) {
      tasks_.erase(position);
    } else {
      ready_.push_back(key);
    }
  }
}

}  // namespace gemmd
