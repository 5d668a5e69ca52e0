#include "server/store/copier.h"

#include <utility>

namespace gemmd {

Copier::~Copier() {
  {
    const MutexLock lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool Copier::Take(Task task) {
  {
    const MutexLock lock(mutex_);
    if (is_busy_) return false;
    is_busy_ = true;
    task_ = std::move(task);
  }
  changed_.notify_all();
  return true;
}

void Copier::WaitUntilIdle() {
  const MutexLock lock(mutex_);
  while (is_busy_) changed_.wait(mutex_);
}

void Copier::Run() {
  RelockableMutexLock lock(mutex_);
  while (true) {
    while (!stops_ && task_ == nullptr) changed_.wait(mutex_);
    if (task_ == nullptr) return;
    Task task = std::exchange(task_, nullptr);
    lock.unlock();
    std::move(task)();
    task = nullptr;
    lock.lock();
    is_busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace gemmd
