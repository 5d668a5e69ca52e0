#include "server/rpc/calls/deadline.h"

#include <algorithm>

#include "base/time/units.h"

namespace gemmd {

TimeNs DeadlineOf(gpr_timespec deadline, TimeNs now) {
  constexpr std::int64_t kMostSeconds = kNoDeadline / kSecond / 2;
  const gpr_timespec end = gpr_convert_clock_type(deadline, GPR_CLOCK_REALTIME);
  if (gpr_time_cmp(end, gpr_inf_future(GPR_CLOCK_REALTIME)) == 0) return kNoDeadline;
  const gpr_timespec left = gpr_time_sub(end, gpr_now(GPR_CLOCK_REALTIME));
  if (left.tv_sec > kMostSeconds) return kNoDeadline;
  return now + std::max(left.tv_sec, -kMostSeconds) * kSecond + left.tv_nsec;
}

}  // namespace gemmd
