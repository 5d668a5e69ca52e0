#include "kernels/landing/copy_spans_entries.h"
#include "kernels/landing/copy_spans_launch.h"

namespace gemmd::landing {

absl::Status EmulatedCopySpans(absl::Span<const CopySpan> spans, const LaunchTarget& target) {
  return LaunchCheckedSpans(spans, target);
}

}  // namespace gemmd::landing
