#include "server/store/converter.h"

#include <utility>

namespace gemmd {

Converter::~Converter() {
  {
    const MutexLock lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Converter::Post(const Tenant& tenant, std::uint64_t bytes, Task task) {
  {
    const MutexLock lock(mutex_);
    waiting_.Push(tenant.key(), static_cast<double>(bytes), std::move(task));
  }
  changed_.notify_all();
}

void Converter::Run() {
  RelockableMutexLock lock(mutex_);
  while (true) {
    while (!stops_ && waiting_.empty()) changed_.wait(mutex_);
    if (waiting_.empty()) return;
    Task task = waiting_.Pop();
    lock.unlock();
    std::move(task)();
    task = nullptr;
    lock.lock();
  }
}

}  // namespace gemmd
