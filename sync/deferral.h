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

  // Whether a deed of this key is done at the end of a Deferral of this thread; the first one that
  // was given for the key is. False: there is no Deferral, and the caller does it.
  static bool PutOff(const void* key, Deed deed);
};

}  // namespace gemmd
