// One thread that carries launches out in the order they come.
#pragma once

#include <atomic>
#include <functional>

#include "base/sync/mutex.h"
#include "server/device/device.h"
#include "server/device/keyed_pool.h"

namespace gemmd {

// Thread-safe. Destroyed, it first finishes what was submitted. A launch that may run on its
// submitter's thread does, if nothing else is under way.
class LaunchThread {
 public:
  // `launch` runs on the thread, one launch at a time, and returns when it is done.
  explicit LaunchThread(std::function<DeviceResult(const DeviceLaunch&)> launch);

  // See Device::Submit().
  void Submit(DeviceLaunch launch, Device::Callback done);

 private:
  void Run(DeviceLaunch launch, Device::Callback done);

  const std::function<DeviceResult(const DeviceLaunch&)> launch_;
  Mutex running_;                  // held while one is carried out
  std::atomic<int> under_way_{0};  // submitted, and not carried out
  KeyedPool thread_{1};            // last: what it carries out uses all else
};

}  // namespace gemmd
