#include "kernels/emulator/fiber.h"

#include <sys/mman.h>

#include <memory>
#include <new>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace gemmd::emulator {
namespace {

constexpr std::size_t kStackBytes = 256 << 10;
constexpr std::size_t kGuardBytes = 4096;

// Stacks are kept for the next launch: mapping one costs more than running on it.
class StackPool {
 public:
  ~StackPool() {
    for (void* stack : free_) munmap(stack, kStackBytes);
  }

  void* Take() {
    if (!free_.empty()) {
      void* stack = free_.back();
      free_.pop_back();
      return stack;
    }
    void* stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED) throw std::bad_alloc();
    mprotect(stack, kGuardBytes, PROT_NONE);
    return stack;
  }

  void Give(void* stack) {
#if defined(__SANITIZE_ADDRESS__)
    ASAN_UNPOISON_MEMORY_REGION(static_cast<char*>(stack) + kGuardBytes, kStackBytes - kGuardBytes);
#endif
    free_.push_back(stack);
  }

 private:
  std::vector<void*> free_;
};

StackPool& Pool() {
  thread_local StackPool pool;
  return pool;
}

// The pool owns the memory; Boost must not free it.
struct Borrowed {
  boost::context::stack_context allocate() { return {}; }
  void deallocate(boost::context::stack_context&) {}
};

void BeforeSwitch(void** fake_stack, const void* bottom, std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(fake_stack, bottom, bytes);
#else
  static_cast<void>(fake_stack), static_cast<void>(bottom), static_cast<void>(bytes);
#endif
}

void AfterSwitch(void* fake_stack, const void** bottom, std::size_t* bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack, bottom, bytes);
#else
  static_cast<void>(fake_stack), static_cast<void>(bottom), static_cast<void>(bytes);
#endif
}

}  // namespace

Fiber::~Fiber() {
  fiber_ = boost::context::fiber();  // unwinds
  if (stack_ != nullptr) Pool().Give(stack_);
}

void Fiber::Start(std::function<void()> body) {
  if (stack_ == nullptr) stack_ = Pool().Take();
  boost::context::stack_context context;
  context.size = kStackBytes - kGuardBytes;
  context.sp = static_cast<char*>(stack_) + kStackBytes;
  fiber_ = boost::context::fiber(
      std::allocator_arg, boost::context::preallocated(context.sp, context.size, context),
      Borrowed(), [this, body = std::move(body)](boost::context::fiber&& scheduler) {
        AfterSwitch(nullptr, &scheduler_stack_, &scheduler_stack_bytes_);
        scheduler_ = std::move(scheduler);
        body();
        BeforeSwitch(nullptr, scheduler_stack_, scheduler_stack_bytes_);
        return std::move(scheduler_);
      });
}

void Fiber::Resume() {
  void* fake_stack = nullptr;
  BeforeSwitch(&fake_stack, static_cast<char*>(stack_) + kGuardBytes, kStackBytes - kGuardBytes);
  fiber_ = std::move(fiber_).resume();
  AfterSwitch(fake_stack, nullptr, nullptr);
}

void Fiber::Suspend() {
  void* fake_stack = nullptr;
  BeforeSwitch(&fake_stack, scheduler_stack_, scheduler_stack_bytes_);
  scheduler_ = std::move(scheduler_).resume();
  AfterSwitch(fake_stack, &scheduler_stack_, &scheduler_stack_bytes_);
}

}  // namespace gemmd::emulator
