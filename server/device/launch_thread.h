// One thread that carries launches out in the order they come.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "server/device/device.h"

namespace gemmd {

// Thread-safe.
class LaunchThread {
 public:
  // `launch` runs on the thread, one launch at a time, and returns when it is done.
  explicit LaunchThread(std::function<DeviceResult(const DeviceLaunch&)> launch);

  // Finishes what was submitted.
  ~LaunchThread();
  LaunchThread(const LaunchThread&) = delete;
  LaunchThread& operator=(const LaunchThread&) = delete;

  // As Device::Submit().
  void Submit(DeviceLaunch launch, Device::Callback done);

 private:
  struct Item {
    DeviceLaunch launch;
    Device::Callback done;
  };

  void Loop();

  const std::function<DeviceResult(const DeviceLaunch&)> launch_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;  // guarded by mutex_
  bool stopping_ = false;   // guarded by mutex_

  std::thread thread_;  // last: started when all else exists
};

}  // namespace gemmd
