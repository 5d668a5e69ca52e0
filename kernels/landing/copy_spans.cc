#include "kernels/landing/copy_spans.h"

#include "absl/strings/str_cat.h"
#include "kernels/landing/copy_spans_entries.h"

namespace gemmd {

absl::Status LaunchCopySpans(absl::Span<const CopySpan> spans, const LaunchTarget& target) {
  if (spans.empty() || spans.size() > kMaxCopySpans) {
    return absl::InvalidArgumentError(
        absl::StrCat("spans are ", spans.size(), "; they must be 1 to ", kMaxCopySpans));
  }
  for (const CopySpan& span : spans) {
    if (span.from == nullptr || span.to == nullptr || span.bytes == 0) {
      return absl::InvalidArgumentError("a span is null or empty");
    }
  }
  return landing::CopySpansFor(target)(spans, target);
}

}  // namespace gemmd
