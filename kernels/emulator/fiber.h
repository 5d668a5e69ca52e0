// One fiber a GPU thread: a stack of its own, switched to and from by hand.
#pragma once

#include <boost/context/fiber.hpp>
#include <cstddef>
#include <functional>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

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

  // Returns from the Resume() that runs. REQUIRES: called by the body.
  void Suspend();

  // Runs `next` in this one's place: the Resume() that runs returns once that or a fiber after
  // it suspends or returns. REQUIRES: called by the body; `next` is suspended. Inline, since
  // after a switch the processor mispredicts every return.
  void SwitchTo(Fiber& next) {
    void* fake_stack = nullptr;
    giver = this;
    next.scheduler_ = std::move(scheduler_);
    next.scheduler_stack_ = scheduler_stack_;
    next.scheduler_stack_bytes_ = scheduler_stack_bytes_;
    BeforeSwitch(&fake_stack, static_cast<char*>(next.stack_) + kGuardBytes,
                 UsableBytes(next.stack_));
    boost::context::fiber from = std::move(next.fiber_).resume();
    AfterSwitch(fake_stack, giver == nullptr);
    Receive(std::move(from));
  }

  bool finished() const { return !fiber_; }

 private:
  static constexpr std::size_t kStackBytes = 256 << 10;
  static constexpr std::size_t kGuardBytes = 4096;
  friend class StackPool;

  // Hot frames of all fibers would lie at the same place of their stacks, and so in the same
  // few sets of a cache: each stack starts a little lower than the one before.
  static std::size_t UsableBytes(const void* stack) {
    constexpr std::size_t kApart = 1216;  // an odd number of cache lines
    constexpr std::size_t kSpread = 64 << 10;
    const std::size_t nth = reinterpret_cast<std::size_t>(stack) / kStackBytes;
    return kStackBytes - kGuardBytes - nth * kApart % kSpread;
  }

  // Takes in whoever gave control to this fiber.
  void Receive(boost::context::fiber&& from) {
    if (giver == nullptr) {
      scheduler_ = std::move(from);
    } else {
      giver->fiber_ = std::move(from);
    }
  }

  // AddressSanitizer must know of every switch.
  static void BeforeSwitch(void** fake_stack, const void* bottom, std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(fake_stack, bottom, bytes);
#else
    static_cast<void>(fake_stack), static_cast<void>(bottom), static_cast<void>(bytes);
#endif
  }
  void AfterSwitch(void* fake_stack, bool from_scheduler) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake_stack, from_scheduler ? &scheduler_stack_ : nullptr,
                                    from_scheduler ? &scheduler_stack_bytes_ : nullptr);
#else
    static_cast<void>(fake_stack), static_cast<void>(from_scheduler);
#endif
  }

  // Who gave control away last; null where Resume() did.
  static __thread Fiber* giver;

  void* stack_ = nullptr;
  boost::context::fiber fiber_;      // the body, while it is suspended
  boost::context::fiber scheduler_;  // who called Resume(), while the body runs
  const void* scheduler_stack_ = nullptr;
  std::size_t scheduler_stack_bytes_ = 0;
};

}  // namespace gemmd::emulator
