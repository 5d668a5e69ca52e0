// One fiber a GPU thread: a stack of its own, switched to and from by hand.
#pragma once

#include <boost/context/fiber.hpp>
#include <cstddef>
#include <functional>
#include <utility>

#include "kernels/emulator/machine/stack_switch.h"

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
    next.scheduler_ = std::move(scheduler_);
    next.scheduler_place_ = scheduler_place_;
    Leave(next.fiber_, next.place_);
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

  // Arrives on this fiber's stack at the end of a scope, by return and where it is unwound.
  struct Arrival {
    Fiber& fiber;
    void* kept = nullptr;
    ~Arrival() { AnnounceArrival(kept, giver == nullptr ? &fiber.scheduler_place_ : nullptr); }
  };

  // Switches from this fiber to another context, until something switches back.
  void Leave(boost::context::fiber& to, const StackPlace& place) {
    giver = this;
    boost::context::fiber from;
    {
      Arrival arrival{*this};
      AnnounceSwitch(&arrival.kept, place);
      from = std::move(to).resume();
    }
    Receive(std::move(from));
  }

  // Takes in whoever gave control to this fiber.
  void Receive(boost::context::fiber&& from) {
    if (giver == nullptr) {
      scheduler_ = std::move(from);
    } else {
      giver->fiber_ = std::move(from);
    }
  }

  // The fiber that gave control away last; null where Resume() did.
  static __thread Fiber* giver;

  void* stack_ = nullptr;
  boost::context::fiber fiber_;      // the body, while it is suspended
  boost::context::fiber scheduler_;  // who called Resume(), while the body runs
  StackPlace place_;
  StackPlace scheduler_place_;
  bool has_run_ = false;
};

}  // namespace gemmd::emulator
