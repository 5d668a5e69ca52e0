#include "kernels/emulator/fiber.h"

#include <sys/mman.h>

#include <memory>
#include <new>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

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
#if defined(__SANITIZE_ADDRESS__)
    ASAN_UNPOISON_MEMORY_REGION(static_cast<char*>(stack) + Fiber::kGuardBytes,
                                Fiber::kStackBytes - Fiber::kGuardBytes);
#endif
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
  fiber_ = boost::context::fiber();  // unwinds
  if (stack_ != nullptr) Pool().Give(stack_);
}

void Fiber::Start(std::function<void()> body) {
  if (stack_ == nullptr) stack_ = Pool().Take();
  boost::context::stack_context context;
  context.size = UsableBytes(stack_);
  context.sp = static_cast<char*>(stack_) + Fiber::kGuardBytes + context.size;
  fiber_ = boost::context::fiber(
      std::allocator_arg, boost::context::preallocated(context.sp, context.size, context),
      Borrowed(), [this, body = std::move(body)](boost::context::fiber&& from) {
        AfterSwitch(nullptr, giver == nullptr);
        Receive(std::move(from));
        body();
        giver = this;
        BeforeSwitch(nullptr, scheduler_stack_, scheduler_stack_bytes_);
        return std::move(scheduler_);
      });
}

void Fiber::Resume() {
  void* fake_stack = nullptr;
  giver = nullptr;
  BeforeSwitch(&fake_stack, static_cast<char*>(stack_) + Fiber::kGuardBytes, UsableBytes(stack_));
  boost::context::fiber from = std::move(fiber_).resume();
  AfterSwitch(fake_stack, false);
  // The fiber that switched back has set it, on a stack that the analyzer does not follow.
  // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage)
  giver->fiber_ = std::move(from);
}

void Fiber::Suspend() {
  void* fake_stack = nullptr;
  giver = this;
  BeforeSwitch(&fake_stack, scheduler_stack_, scheduler_stack_bytes_);
  boost::context::fiber from = std::move(scheduler_).resume();
  AfterSwitch(fake_stack, giver == nullptr);
  Receive(std::move(from));
}

}  // namespace gemmd::emulator
