// One deed for several events of one thread.
#pragma once

#include "absl/functional/any_invocable.h"

namespace gemmd {

// While one is alive, what its thread would do again and again is done once, at its end: of
// several results that are told one after another the first would leave in a message of its
// own, and messages cost more than what is in them. The outermost one counts. Under one, nothing
// may wait for what was put off.
class Deferral {
 public:
  using Deed = absl::AnyInvocable<void() &&>;

  Deferral();
  ~Deferral();  // does what was put off, in the order in which it was first asked for
  Deferral(const Deferral&) = delete;
  Deferral& operator=(const Deferral&) = delete;

  // Puts the deed off to the end of a Deferral of this thread, and returns true; of several deeds
  // of one key only the first is done. Returns false if there is no Deferral: the caller does the
  // deed.
  static bool PutOff(const void* key, Deed deed);
};

}  // namespace gemmd
