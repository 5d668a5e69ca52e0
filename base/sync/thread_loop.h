// Loops whose indices several threads share, for callers that have no threads of their own.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <system_error>
#include <thread>
#include <vector>

namespace gemmd {

// Joined at the end of its life: a std::thread that nobody has joined ends the process.
class JoinedThreads {
 public:
  JoinedThreads() = default;
  ~JoinedThreads() {
    for (std::thread& thread : threads_) thread.join();
  }
  JoinedThreads(const JoinedThreads&) = delete;
  JoinedThreads& operator=(const JoinedThreads&) = delete;

  // Returns false where the system gives no more threads.
  template <typename Function>
  bool Start(const Function& function) {
    try {
      threads_.emplace_back(function);
      return true;
    } catch (const std::system_error&) {
      return false;
    }
  }

 private:
  std::vector<std::thread> threads_;
};

// Calls body(i) for each i of [0, count) on up to `threads` threads, this one among them, and
// returns when all calls have. Each free thread takes the next index: cores need not be alike, nor
// idle. Where the system gives fewer threads, those do it all.
template <typename Body>
void ForEachOnThreads(std::size_t count, std::size_t threads, const Body& body) {
  std::atomic<std::size_t> next{0};
  const auto take = [&] {
    for (std::size_t i = next++; i < count; i = next++) body(i);
  };
  JoinedThreads helpers;
  for (std::size_t i = 1; i < std::min(count, threads); ++i) {
    if (!helpers.Start(take)) break;
  }
  take();
}

}  // namespace gemmd
