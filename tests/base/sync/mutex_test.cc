#include "base/sync/mutex.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace gemmd {
namespace {

template <typename M>
class Count {
 public:
  void Add() {
    const MutexLock lock(mutex_);
    ++count_;
  }
  int AddTwice() {
    RelockableMutexLock lock(mutex_);
    ++count_;
    lock.unlock();
    Add();
    lock.lock();
    return count_;
  }

 private:
  M mutex_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
};

template <typename M>
void CountOnThreads() {
  Count<M> count;
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&count] {
      for (int k = 0; k < 1000; ++k) count.Add();
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(count.AddTwice(), 4002);
}

TEST(MutexTest, LetsOneThreadInAtATime) {
  CountOnThreads<Mutex>();
  CountOnThreads<AdaptiveMutex>();
}

// Returns whether nobody else has it.
bool CanLock(Mutex& mutex) {
  if (!mutex.try_lock()) return false;
  const MutexLock lock(mutex, std::adopt_lock);
  return true;
}

TEST(MutexTest, IsTakenOverFromTryLock) {
  Mutex mutex;
  {
    const MutexLock lock(mutex);
    std::thread([&mutex] { EXPECT_FALSE(CanLock(mutex)); }).join();
  }
  EXPECT_TRUE(CanLock(mutex));
  EXPECT_TRUE(CanLock(mutex));
}

class Gate {
 public:
  void Open() {
    {
      const MutexLock lock(mutex_);
      is_open_ = true;
    }
    changed_.notify_all();
  }
  void Wait() {
    const MutexLock lock(mutex_);
    while (!is_open_) changed_.wait(mutex_);
  }
  bool WaitFor(std::chrono::milliseconds time) {
    const MutexLock lock(mutex_);
    return changed_.wait_for(mutex_, time, is_open_);
  }
  bool WaitUntil(std::chrono::steady_clock::time_point time) {
    const MutexLock lock(mutex_);
    while (!is_open_) {
      if (changed_.wait_until(mutex_, time) == std::cv_status::timeout) return is_open_;
    }
    return true;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool is_open_ ABSL_GUARDED_BY(mutex_) = false;
};

TEST(CondVarTest, GivesUpInTime) {
  Gate gate;
  EXPECT_FALSE(gate.WaitFor(std::chrono::milliseconds(1)));
  EXPECT_FALSE(gate.WaitUntil(std::chrono::steady_clock::now() + std::chrono::milliseconds(1)));
  gate.Open();
  EXPECT_TRUE(gate.WaitFor(std::chrono::milliseconds(0)));
  EXPECT_TRUE(gate.WaitUntil(std::chrono::steady_clock::now()));
}

TEST(CondVarTest, WakesWhoWaits) {
  Gate gate;
  std::thread opener([&gate] { gate.Open(); });
  gate.Wait();
  EXPECT_TRUE(gate.WaitFor(std::chrono::hours(1)));
  opener.join();
}

}  // namespace
}  // namespace gemmd
