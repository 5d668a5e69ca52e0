#include "base/text/duration.h"

namespace gemmd {

std::string DurationText(absl::Duration duration) {
  return duration == absl::ZeroDuration() ? "0s" : absl::FormatDuration(duration);
}

std::string DurationText(std::int64_t nanoseconds) {
  return DurationText(absl::Nanoseconds(nanoseconds));
}

}  // namespace gemmd
