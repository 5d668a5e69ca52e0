#include "server/device/launch_thread.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace gemmd {
namespace {

DeviceLaunch MakeLaunch(bool may_run_here) {
  DeviceLaunch launch = DeviceWork();
  launch.may_run_here = may_run_here;
  return launch;
}

TEST(LaunchThreadTest, ALaunchRunsOnItsSubmittersThreadWhereItMayAndNothingElseDoes) {
  std::thread::id ran_on;
  LaunchThread launches([&](const DeviceLaunch&) {
    ran_on = std::this_thread::get_id();
    return DeviceResult();
  });
  int ends = 0;
  launches.Submit(MakeLaunch(true), [&](const DeviceResult&) { ++ends; });
  EXPECT_EQ(ends, 1);
  EXPECT_EQ(ran_on, std::this_thread::get_id());

  std::promise<void> ended;
  launches.Submit(MakeLaunch(false), [&](const DeviceResult&) { ended.set_value(); });
  ended.get_future().wait();
  EXPECT_NE(ran_on, std::this_thread::get_id());
}

// From its callback on, the device is free for the next.
TEST(LaunchThreadTest, ACallbackMaySubmit) {
  LaunchThread launches([](const DeviceLaunch&) { return DeviceResult(); });
  int ends = 0;
  launches.Submit(MakeLaunch(true), [&](const DeviceResult&) {
    launches.Submit(MakeLaunch(true), [&](const DeviceResult&) { ++ends; });
    EXPECT_EQ(ends, 1);
  });
  EXPECT_EQ(ends, 1);
}

TEST(LaunchThreadTest, OneRunsAtATimeWhoeverSubmits) {
  std::atomic<int> running{0};
  std::atomic<int> most{0};
  std::atomic<int> ends{0};
  {
    LaunchThread launches([&](const DeviceLaunch&) {
      most = std::max<int>(most, running.fetch_add(1) + 1);
      std::this_thread::yield();
      running.fetch_sub(1);
      return DeviceResult();
    });
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&launches, &ends, i] {
        for (int k = 0; k < 200; ++k) {
          launches.Submit(MakeLaunch((i + k) % 3 != 0), [&ends](const DeviceResult&) { ++ends; });
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(most, 1);
  EXPECT_EQ(ends, 800);
}

}  // namespace
}  // namespace gemmd
