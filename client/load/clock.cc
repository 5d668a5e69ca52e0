#include "client/load/clock.h"

#include <ctime>

#include "base/time/units.h"

namespace gemmd::load {

TimeNs SteadyClock::Now() const {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

void SteadyClock::SleepUntil(TimeNs time) {
  timespec until = {};
  until.tv_sec = time / kSecond;
  until.tv_nsec = time % kSecond;
  // Absolute, so that a signal's interruption cannot lengthen it.
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) != 0) {
  }
}

}  // namespace gemmd::load
