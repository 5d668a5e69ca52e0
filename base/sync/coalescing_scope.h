// Coalesces notifications of one thread.
#pragma once

#include "absl/functional/any_invocable.h"

namespace gemmd {

// While a scope is alive, its thread defers callbacks to the scope's end and runs each once,
// however often it was asked for. Without it the first of several results that end together would
// leave in a message of its own, and a message costs more than a result in it. Scopes nest, and the
// outermost one runs the callbacks. Under one, nothing may wait for a callback that was deferred.
class CoalescingScope {
 public:
  using Callback = absl::AnyInvocable<void() &&>;

  CoalescingScope();
  ~CoalescingScope();  // runs the callbacks, in the order in which they were first asked for
  CoalescingScope(const CoalescingScope&) = delete;
  CoalescingScope& operator=(const CoalescingScope&) = delete;

  // Defers the callback to the end of this thread's scope and returns true; of several with one
  // key the first is run, and the others are dropped. Returns false if there is no scope: the
  // caller runs the callback.
  static bool Defer(const void* key, Callback callback);
};

}  // namespace gemmd
