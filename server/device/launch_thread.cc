#include "server/device/launch_thread.h"

#include <utility>

namespace gemmd {

LaunchThread::LaunchThread(std::function<DeviceResult(const DeviceLaunch&)> launch)
    : launch_(std::move(launch)), thread_([this] { Loop(); }) {}

LaunchThread::~LaunchThread() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void LaunchThread::Submit(DeviceLaunch launch, Device::Callback done) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    items_.push_back({std::move(launch), std::move(done)});
  }
  changed_.notify_one();
}

void LaunchThread::Loop() {
  while (true) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return stopping_ || !items_.empty(); });
    if (items_.empty()) return;
    Device::Callback done;
    DeviceResult result;
    {
      Item item = std::move(items_.front());
      items_.pop_front();
      lock.unlock();
      result = launch_(item.launch);
      done = std::move(item.done);
    }  // what the launch held is free before its end is told
    std::move(done)(std::move(result));
  }
}

}  // namespace gemmd
