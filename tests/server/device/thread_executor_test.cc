#include "server/device/thread_executor.h"

#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace gemmd {
namespace {

TEST(ThreadExecutor, CallsEachIndexOnceAndNoWorkerTwiceAtATime) {
  for (const int workers : {1, 2, 5}) {
    ThreadExecutor executor(workers);
    EXPECT_EQ(executor.workers(), workers);
    for (std::int64_t count = 0; count < 200; ++count) {
      std::vector<std::atomic<int>> calls(count);
      std::vector<std::atomic<int>> busy(workers);
      executor.Run(count, [&](int worker, std::int64_t index) {
        ASSERT_LT(worker, workers);
        EXPECT_EQ(busy[worker].fetch_add(1), 0);
        ++calls[index];
        busy[worker].fetch_sub(1);
      });
      for (const auto& call : calls) ASSERT_EQ(call, 1);
    }
  }
}

TEST(ThreadExecutor, WritesOfTheLoopAreSeenAfterIt) {
  ThreadExecutor executor(3);
  std::vector<int> values(1000);
  for (int round = 1; round <= 50; ++round) {
    executor.Run(1000, [&](int, std::int64_t i) { values[i] += 1; });
    for (const int value : values) ASSERT_EQ(value, round);
  }
}

// Waking another thread may take longer than the loop.
TEST(ThreadExecutor, OneIndexIsTheCallers) {
  ThreadExecutor executor(4);
  for (int round = 0; round < 50; ++round) {
    std::thread::id ran_on;
    executor.Run(1, [&](int worker, std::int64_t) {
      EXPECT_EQ(worker, 0);
      ran_on = std::this_thread::get_id();
    });
    ASSERT_EQ(ran_on, std::this_thread::get_id());
  }
}

}  // namespace
}  // namespace gemmd
