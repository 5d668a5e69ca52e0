// A process that gets no more threads, as in a container at its limit.
#pragma once

#include <gtest/gtest.h>
#include <pthread.h>

#include <cstddef>

namespace gemmd::testing {

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

}  // namespace gemmd::testing
