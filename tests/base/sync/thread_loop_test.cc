#include "base/sync/thread_loop.h"

#include <atomic>
#include <cstddef>
#include <set>
#include <thread>
#include <vector>

#include "base/sync/mutex.h"
#include "gtest/gtest.h"
#include "tests/testing/no_threads.h"

namespace gemmd {
namespace {

std::vector<int> CallsOfEach(std::size_t count, std::size_t threads) {
  std::vector<std::atomic<int>> calls(count);
  ForEachOnThreads(count, threads, [&calls](std::size_t i) { ++calls[i]; });
  return {calls.begin(), calls.end()};
}

TEST(ForEachOnThreads, EachIndexOnce) {
  for (const std::size_t count : {0, 1, 2, 100}) {
    for (const std::size_t threads : {0, 1, 2, 8}) {
      EXPECT_EQ(CallsOfEach(count, threads), std::vector<int>(count, 1));
    }
  }
}

TEST(ForEachOnThreads, SeveralThreadsAreThereAtOnce) {
  Mutex mutex;
  CondVar both;
  std::set<std::thread::id> there;
  ForEachOnThreads(2, 2, [&](std::size_t /*i*/) {
    const MutexLock lock(mutex);
    there.insert(std::this_thread::get_id());
    both.notify_all();
    while (there.size() < 2) both.wait(mutex);
  });
  EXPECT_EQ(there.size(), 2U);
}

TEST(ForEachOnThreads, ThisThreadDoesItAllWhereThereIsNoOther) {
  const testing::NoThreads no_threads;
  EXPECT_FALSE(JoinedThreads().Start([] {}));
  EXPECT_EQ(CallsOfEach(100, 8), std::vector<int>(100, 1));
}

TEST(ForEachOnThreads, AnExceptionOfThisThreadWaitsForTheOthers) {
  Mutex mutex;
  CondVar thrown;
  bool is_thrown = false;
  bool has_ended = false;
  const std::thread::id here = std::this_thread::get_id();
  const auto body = [&](std::size_t /*i*/) {
    const MutexLock lock(mutex);
    if (std::this_thread::get_id() == here) {
      is_thrown = true;
      thrown.notify_all();
      throw 1;
    }
    while (!is_thrown) thrown.wait(mutex);
    has_ended = true;
  };
  EXPECT_THROW(ForEachOnThreads(2, 2, body), int);
  EXPECT_TRUE(has_ended);
}

}  // namespace
}  // namespace gemmd
