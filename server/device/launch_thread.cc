#include "server/device/launch_thread.h"

#include <utility>

namespace gemmd {

LaunchThread::LaunchThread(std::function<DeviceResult(const DeviceLaunch&)> launch)
    : launch_(std::move(launch)) {}

void LaunchThread::Submit(DeviceLaunch launch, Device::Callback done) {
  const bool is_idle = under_way_.fetch_add(1) == 0;
  if (is_idle && launch.may_run_here) return Run(std::move(launch), std::move(done));
  thread_.Post(0, [this, launch = std::move(launch), done = std::move(done)]() mutable {
    Run(std::move(launch), std::move(done));
  });
}

void LaunchThread::Run(DeviceLaunch launch, Device::Callback done) {
  DeviceResult result;
  {
    const MutexLock lock(running_);
    const DeviceLaunch taken = std::move(launch);
    result = launch_(taken);
  }  // what the launch held is free before its end is told
  under_way_.fetch_sub(1);
  std::move(done)(std::move(result));
}

}  // namespace gemmd
