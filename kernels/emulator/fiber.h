// One fiber a GPU thread: a stack of its own, switched to and from by hand.
#pragma once

#include <boost/context/fiber.hpp>
#include <cstddef>
#include <functional>

namespace gemmd::emulator {

// Not thread-safe: a fiber runs on the OS thread that made it.
class Fiber {
 public:
  Fiber() = default;
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  // Unwinds the body where it has not returned.
  ~Fiber();

  // Prepares to call body() on the first Resume().
  void Start(std::function<void()> body);

  // Runs the body until it suspends or returns. REQUIRES: called outside any fiber.
  void Resume();

  // Returns from Resume(). REQUIRES: called by the body.
  void Suspend();

  bool finished() const { return !fiber_; }

 private:
  void* stack_ = nullptr;
  boost::context::fiber fiber_;      // the body, while it is suspended
  boost::context::fiber scheduler_;  // whoever resumed the body, while it runs
  const void* scheduler_stack_ = nullptr;
  std::size_t scheduler_stack_bytes_ = 0;
};

}  // namespace gemmd::emulator
