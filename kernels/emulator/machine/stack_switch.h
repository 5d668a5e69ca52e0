// Announces switches between stacks to sanitizers. AddressSanitizer needs the bounds of the stack
// in use, ThreadSanitizer a history of each stack. In other builds these functions do nothing.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define GEMMD_ADDRESS_SANITIZER 1
#elif defined(__SANITIZE_THREAD__)
#define GEMMD_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GEMMD_ADDRESS_SANITIZER 1
#elif __has_feature(thread_sanitizer)
#define GEMMD_THREAD_SANITIZER 1
#endif
#endif

#if defined(GEMMD_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#elif defined(GEMMD_THREAD_SANITIZER)
#include <sanitizer/tsan_interface.h>
#endif

namespace gemmd::emulator {

// A stack that may be switched to.
struct StackPlace {
  const void* bottom = nullptr;
  std::size_t bytes = 0;
  void* history = nullptr;  // ThreadSanitizer's
};

// Gives a new fiber its history, and takes it away.
inline void BeginHistory(StackPlace& place) {
#if defined(GEMMD_THREAD_SANITIZER)
  if (place.history == nullptr) place.history = __tsan_create_fiber(0);
#else
  static_cast<void>(place);
#endif
}
inline void EndHistory(StackPlace& place) {
#if defined(GEMMD_THREAD_SANITIZER)
  if (place.history != nullptr) __tsan_destroy_fiber(place.history);
#endif
  place.history = nullptr;
}

// Returns the history of the stack in use.
inline void* CurrentHistory() {
#if defined(GEMMD_THREAD_SANITIZER)
  return __tsan_get_current_fiber();
#else
  return nullptr;
#endif
}

// The next statement switches to `to`. `kept` is what AnnounceArrival() wants once this stack
// goes on; null where it never does.
inline void AnnounceSwitch(void** kept, const StackPlace& to) {
#if defined(GEMMD_ADDRESS_SANITIZER)
  __sanitizer_start_switch_fiber(kept, to.bottom, to.bytes);
#elif defined(GEMMD_THREAD_SANITIZER)
  __tsan_switch_to_fiber(to.history, 0);
#endif
  static_cast<void>(kept), static_cast<void>(to);
}

// The first statement after a switch to this stack. `from`, where given, learns the bounds of
// the stack that switched.
inline void AnnounceArrival(void* kept, StackPlace* from) {
#if defined(GEMMD_ADDRESS_SANITIZER)
  __sanitizer_finish_switch_fiber(kept, from == nullptr ? nullptr : &from->bottom,
                                  from == nullptr ? nullptr : &from->bytes);
#endif
  static_cast<void>(kept), static_cast<void>(from);
}

// A stack's memory is used again for another: what the frames on it left poisoned is forgotten.
inline void ForgetFrames(void* bottom, std::size_t bytes) {
#if defined(GEMMD_ADDRESS_SANITIZER)
  ASAN_UNPOISON_MEMORY_REGION(bottom, bytes);
#endif
  static_cast<void>(bottom), static_cast<void>(bytes);
}

}  // namespace gemmd::emulator
