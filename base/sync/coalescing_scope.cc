#include "base/sync/coalescing_scope.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace gemmd {
namespace {

struct Deferred {
  const void* key;
  CoalescingScope::Callback callback;
};

thread_local int depth = 0;
thread_local std::vector<Deferred> deferred;

}  // namespace

CoalescingScope::CoalescingScope() { ++depth; }

CoalescingScope::~CoalescingScope() {
  if (--depth > 0) return;
  // A callback may defer others, within a scope of its own.
  std::vector<Deferred> due;
  due.swap(deferred);
  for (Deferred& each : due) std::move(each.callback)();
}

bool CoalescingScope::Defer(const void* key, Callback callback) {
  if (depth == 0) return false;
  const bool is_new = std::none_of(deferred.begin(), deferred.end(),
                                   [key](const Deferred& each) { return each.key == key; });
  if (is_new) deferred.push_back({key, std::move(callback)});
  return true;
}

}  // namespace gemmd
