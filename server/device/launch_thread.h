// One thread that carries launches out in the order they come.
#pragma once

#include <functional>

#include "server/device/device.h"
#include "server/device/worker_pool.h"

namespace gemmd {

// Thread-safe. Destroyed, it first finishes what was submitted.
class LaunchThread {
 public:
  // `launch` runs on the thread, one launch at a time, and returns when it is done.
  explicit LaunchThread(std::function<DeviceResult(const DeviceLaunch&)> launch);

  // As Device::Submit().
  void Submit(DeviceLaunch launch, Device::Callback done);

 private:
  const std::function<DeviceResult(const DeviceLaunch&)> launch_;
  WorkerPool thread_{1};  // last: what it carries out uses all else
};

}  // namespace gemmd
