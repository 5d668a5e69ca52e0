#include "base/sync/thread_loop.h"

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <set>
#include <thread>
#include <vector>

#include "base/sync/mutex.h"
#include "gtest/gtest.h"

namespace gemmd {
namespace {

// While it lives the system gives no thread: no stack of that size can be had.
class NoThreads {
 public:
  NoThreads() {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_getattr_default_np(&attributes);
    pthread_attr_getstacksize(&attributes, &before_);
    pthread_attr_destroy(&attributes);
    Set(std::size_t{1} << 48);
  }
  ~NoThreads() { Set(before_); }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  static void Set(std::size_t bytes) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    EXPECT_EQ(pthread_attr_setstacksize(&attributes, bytes), 0);
    EXPECT_EQ(pthread_setattr_default_np(&attributes), 0);
    pthread_attr_destroy(&attributes);
  }

  std::size_t before_ = 0;
};

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
  const NoThreads no_threads;
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
