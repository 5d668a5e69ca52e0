// Durations as people write them.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace gemmd {

// "48h", "1m30s", "250ms", "1.5us": as --timeout and --lease take them. A whole number of hours,
// minutes or seconds has no smaller unit.
std::string DurationText(absl::Duration duration);
std::string DurationText(std::int64_t nanoseconds);

}  // namespace gemmd
