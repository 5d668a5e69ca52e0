// The two compilations of the copies, as functions.
#pragma once

#include "absl/status/status.h"
#include "kernels/landing/copy_spans.h"

namespace gemmd::landing {

// UNIMPLEMENTED: built without CUDA.
absl::Status CudaCopySpans(absl::Span<const CopySpan> spans, const LaunchTarget& target);

absl::Status EmulatedCopySpans(absl::Span<const CopySpan> spans, const LaunchTarget& target);

}  // namespace gemmd::landing
