#include "server/device/launch_thread.h"

#include <utility>

namespace gemmd {

LaunchThread::LaunchThread(std::function<DeviceResult(const DeviceWork&)> launch)
    : launch_(std::move(launch)), thread_([this] { Loop(); }) {}

LaunchThread::~LaunchThread() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void LaunchThread::Submit(DeviceWork work, Device::Callback done) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    items_.push_back({std::move(work), std::move(done)});
  }
  changed_.notify_one();
}

void LaunchThread::Loop() {
  while (true) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return stopping_ || !items_.empty(); });
    if (items_.empty()) return;
    Item item = std::move(items_.front());
    items_.pop_front();
    lock.unlock();
    DeviceResult result = launch_(item.work);
    item.work = {};  // what it holds is free before its end is told
    std::move(item.done)(std::move(result));
  }
}

}  // namespace gemmd
