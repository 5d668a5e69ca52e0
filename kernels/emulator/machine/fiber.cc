#include "kernels/emulator/machine/fiber.h"

#include <sys/mman.h>

#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace gemmd::emulator {

__thread Fiber* Fiber::giver = nullptr;

// Stacks are kept for the next launch: mapping one costs more than running on it.
class StackPool {
 public:
  ~StackPool() {
    for (void* stack : free_) munmap(stack, Fiber::kStackBytes);
  }

  void* Take() {
    if (!free_.empty()) {
      void* stack = free_.back();
      free_.pop_back();
      return stack;
    }
    void* stack = mmap(nullptr, Fiber::kStackBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED) throw std::bad_alloc();
    mprotect(stack, Fiber::kGuardBytes, PROT_NONE);
    return stack;
  }

  void Give(void* stack) {
    ForgetFrames(static_cast<char*>(stack) + Fiber::kGuardBytes,
                 Fiber::kStackBytes - Fiber::kGuardBytes);
    free_.push_back(stack);
  }

 private:
  std::vector<void*> free_;
};

namespace {

StackPool& Pool() {
  thread_local StackPool pool;
  return pool;
}

// The pool owns the memory; Boost must not free it.
struct Borrowed {
  boost::context::stack_context allocate() { return {}; }
  void deallocate(boost::context::stack_context&) {}
};

}  // namespace

Fiber::~Fiber() {
  if (fiber_ && has_run_) {
    // Unwinds: the body's frames end on their own stack, which then comes back here.
    scheduler_place_.history = CurrentHistory();
    giver = nullptr;
    void* kept = nullptr;
    AnnounceSwitch(&kept, place_);
    fiber_ = boost::context::fiber();
    AnnounceArrival(kept, nullptr);
  }
  fiber_ = boost::context::fiber();
  EndHistory(place_);
  if (stack_ != nullptr) Pool().Give(stack_);
}

void Fiber::Start(std::function<void()> body) {
  if (stack_ == nullptr) stack_ = Pool().Take();
  place_.bottom = static_cast<char*>(stack_) + Fiber::kGuardBytes;
  place_.bytes = UsableBytes(stack_);
  BeginHistory(place_);
  boost::context::stack_context context;
  context.size = place_.bytes;
  context.sp = static_cast<char*>(stack_) + Fiber::kGuardBytes + context.size;
  fiber_ = boost::context::fiber(
      std::allocator_arg, boost::context::preallocated(context.sp, context.size, context),
      Borrowed(), [this, body = std::move(body)](boost::context::fiber&& from) {
        AnnounceArrival(nullptr, giver == nullptr ? &scheduler_place_ : nullptr);
        has_run_ = true;
        Receive(std::move(from));
        try {
          body();
        } catch (const boost::context::detail::forced_unwind&) {
          AnnounceSwitch(nullptr, scheduler_place_);
          throw;
        }
        giver = this;
        AnnounceSwitch(nullptr, scheduler_place_);
        return std::move(scheduler_);
      });
}

void Fiber::Resume() {
  scheduler_place_.history = CurrentHistory();
  giver = nullptr;
  void* kept = nullptr;
  AnnounceSwitch(&kept, place_);
  boost::context::fiber from = std::move(fiber_).resume();
  AnnounceArrival(kept, nullptr);
  // The fiber that switched back has set it, on a stack that the analyzer does not follow.
  // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage)
  giver->fiber_ = std::move(from);
}

void Fiber::Suspend() { Leave(scheduler_, scheduler_place_); }

}  // namespace gemmd::emulator
