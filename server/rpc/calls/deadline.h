// The time by which a client wants its answer, as gRPC tells it.
#pragma once

#include <grpc/support/time.h>

#include "base/time/clock.h"

namespace gemmd {

// The deadline on the clock that says `now`. kNoDeadline: gRPC has none, or one so far away that
// nanoseconds do not count to it: 8 digits of hours are legal in grpc-timeout.
TimeNs DeadlineOf(gpr_timespec deadline, TimeNs now);

}  // namespace gemmd
