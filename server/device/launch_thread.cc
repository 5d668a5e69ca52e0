#include "server/device/launch_thread.h"

#include <utility>

namespace gemmd {

LaunchThread::LaunchThread(std::function<DeviceResult(const DeviceLaunch&)> launch)
    : launch_(std::move(launch)) {}

void LaunchThread::Submit(DeviceLaunch launch, Device::Callback done) {
  thread_.Post([this, launch = std::move(launch), done = std::move(done)]() mutable {
    DeviceResult result;
    {
      const DeviceLaunch taken = std::move(launch);
      result = launch_(taken);
    }  // what the launch held is free before its end is told
    std::move(done)(std::move(result));
  });
}

}  // namespace gemmd
