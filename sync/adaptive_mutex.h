// A mutex for sections of at most a few microseconds that many threads enter often.
#pragma once

#include <pthread.h>

namespace gemmd {

// As std::mutex, but who finds it taken looks again for some microseconds before it sleeps.
// std::mutex sleeps at once, and waking takes tens of microseconds in a virtual machine: with
// twenty locks in a request's way, its threads would mostly sleep. glibc's adaptive kind of
// pthread_mutex_t; absl::Mutex does the same, but Debian's is not instrumented for TSan, under
// which what uses this is tested.
class AdaptiveMutex {
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

  void lock() { pthread_mutex_lock(&mutex_); }
  void unlock() { pthread_mutex_unlock(&mutex_); }

 private:
  pthread_mutex_t mutex_;
};

}  // namespace gemmd
