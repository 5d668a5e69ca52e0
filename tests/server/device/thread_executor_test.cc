#include "server/device/thread_executor.h"

#include <atomic>
#include <cstdint>
#include <future>
#include <numeric>
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

TEST(ThreadExecutor, LoopsOfSeveralThreadsAreEachDoneOnce) {
  constexpr int kCallers = 4;
  for (const int workers : {1, 2, 3, 8}) {
    ThreadExecutor executor(workers);
    std::vector<std::thread> callers;
    for (int caller = 0; caller < kCallers; ++caller) {
      callers.emplace_back([&executor, caller] {
        for (std::int64_t count = caller; count < 300; count += kCallers) {
          // Not atomic: a worker of this loop has its own, and Run() returns after all.
          std::vector<int> by_worker(executor.workers());
          std::vector<int> calls(count);
          executor.Run(count, [&](int worker, std::int64_t index) {
            ++by_worker[worker];
            ++calls[index];
          });
          ASSERT_EQ(std::accumulate(by_worker.begin(), by_worker.end(), std::int64_t{0}), count);
          for (const int each : calls) ASSERT_EQ(each, 1);
        }
      });
    }
    for (std::thread& caller : callers) caller.join();
  }
}

// A loop that has all the helpers it can have must not keep another's caller waiting.
TEST(ThreadExecutor, ALoopEndsWhileAnotherHasTheHelpers) {
  ThreadExecutor executor(2);
  std::promise<void> other_ended;
  std::promise<void> both_are_busy;
  std::atomic<int> busy{0};
  std::thread long_loop([&] {
    std::shared_future<void> ended = other_ended.get_future().share();
    executor.Run(2, [&](int, std::int64_t) {
      if (++busy == 2) both_are_busy.set_value();
      ended.wait();
    });
  });
  both_are_busy.get_future().wait();
  std::atomic<int> calls{0};
  executor.Run(5, [&](int worker, std::int64_t) {
    EXPECT_EQ(worker, 0);
    ++calls;
  });
  EXPECT_EQ(calls, 5);
  other_ended.set_value();
  long_loop.join();
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
