// Mutexes and guards whose use the compiler checks.
//
// A member says which mutex guards it (ABSL_GUARDED_BY), and a function which one its caller
// holds (ABSL_EXCLUSIVE_LOCKS_REQUIRED). Clang's -Wthread-safety compares these with what is done,
// and deploy/check/tidy.sh fails where they differ. GCC knows nothing of them.
#pragma once

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"  // IWYU pragma: export

namespace gemmd {

// Wraps std::mutex, so that TSan knows it.
class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  bool try_lock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) { return mutex_.try_lock(); }
  void unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  // Tells the compiler that it is held, under another name. Checks nothing.
  void AssertHeld() const ABSL_ASSERT_EXCLUSIVE_LOCK() {}

 private:
  friend class CondVar;

  std::mutex mutex_;
};

// A mutex for sections of at most a few microseconds that many threads enter often.
//
// Like std::mutex, but a thread that finds it taken looks again for some microseconds before it
// sleeps. std::mutex sleeps at once, and waking takes tens of microseconds in a virtual machine:
// with twenty locks in a request's way, its threads would mostly sleep. It is glibc's adaptive kind
// of pthread_mutex_t; absl::Mutex does the same, but Debian's is not instrumented for TSan, under
// which the code that uses this is tested.
class ABSL_LOCKABLE AdaptiveMutex {
 public:
  AdaptiveMutex() {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(&mutex_, &attributes);
    pthread_mutexattr_destroy(&attributes);
  }
  ~AdaptiveMutex() { pthread_mutex_destroy(&mutex_); }
  AdaptiveMutex(const AdaptiveMutex&) = delete;
  AdaptiveMutex& operator=(const AdaptiveMutex&) = delete;

  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { pthread_mutex_lock(&mutex_); }
  void unlock() ABSL_UNLOCK_FUNCTION() { pthread_mutex_unlock(&mutex_); }

 private:
  pthread_mutex_t mutex_;
};

// Holds a mutex of either kind as long as it lives.
template <typename M>
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(M& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_.lock();
  }
  // Takes over what the caller has locked.
  MutexLock(M& mutex, std::adopt_lock_t /*adopt*/) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex)
      : mutex_(mutex) {}
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  M& mutex_;
};

// Holds a mutex of either kind as long as it lives, and can let go of it for a while.
template <typename M>
class ABSL_SCOPED_LOCKABLE RelockableMutexLock {
 public:
  explicit RelockableMutexLock(M& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_.lock();
  }
  ~RelockableMutexLock() ABSL_UNLOCK_FUNCTION() {
    if (is_locked_) mutex_.unlock();
  }
  RelockableMutexLock(const RelockableMutexLock&) = delete;
  RelockableMutexLock& operator=(const RelockableMutexLock&) = delete;

  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    mutex_.lock();
    is_locked_ = true;
  }
  void unlock() ABSL_UNLOCK_FUNCTION() {
    is_locked_ = false;
    mutex_.unlock();
  }

 private:
  M& mutex_;
  bool is_locked_ = true;
};

// Wraps std::condition_variable. Callers write their loops out, because the compiler does not see
// that a predicate is called with the mutex held.
class CondVar {
 public:
  CondVar() = default;
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  void wait(Mutex& mutex) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }

  template <typename Clock, typename Duration>
  std::cv_status wait_until(Mutex& mutex, const std::chrono::time_point<Clock, Duration>& time)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const std::cv_status status = condition_.wait_until(lock, time);
    lock.release();
    return status;
  }

  template <typename Rep, typename Period>
  std::cv_status wait_for(Mutex& mutex, const std::chrono::duration<Rep, Period>& time)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const std::cv_status status = condition_.wait_for(lock, time);
    lock.release();
    return status;
  }

  // Until the flag, which the mutex guards, is set, or for so long; gives the flag.
  template <typename Rep, typename Period>
  bool wait_for(Mutex& mutex, const std::chrono::duration<Rep, Period>& time, const bool& flag)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait_for(lock, time, [&flag] { return flag; });
    lock.release();
    return flag;
  }

  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace gemmd
