// Host code of the copies, compiled for the device and for the emulator.
#pragma once

#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "kernels/landing/copy_spans_kernel.h"
#include "kernels/ptx/launch.h"

namespace gemmd::landing {
inline namespace GEMMD_BACKEND {

template <int kSpans>
absl::Status LaunchCopySpansOf(absl::Span<const CopySpan> spans, const LaunchTarget& target) {
  // A thread of a span's blocks has one word of 16 bytes, until there are this many blocks.
  constexpr std::uint64_t kBlockBytes = 16 * kCopyThreads;
  constexpr std::uint64_t kMaxBlocks = 64;
  CopySpansParams<kSpans> params;
  std::copy(spans.begin(), spans.end(), params.spans);
  std::uint64_t longest = 0;
  std::vector<ptx::DeviceBuffer> buffers;
  for (const CopySpan& span : spans) {
    longest = std::max(longest, span.bytes);
    GEMMD_IN_EMULATOR(buffers.push_back({span.from, span.bytes, "from"});
                      buffers.push_back({span.to, span.bytes, "to", false});)
  }
  ptx::LaunchShape shape;
  shape.kernel = "landing/copy_spans";
  shape.blocks_x =
      static_cast<std::uint32_t>(std::min(kMaxBlocks, (longest + kBlockBytes - 1) / kBlockBytes));
  shape.blocks_y = static_cast<std::uint32_t>(spans.size());
  shape.threads = kCopyThreads;
  return ptx::Launch(CopySpans<kSpans>, shape, params, buffers, target);
}

// REQUIRES: what LaunchCopySpans() checks.
inline absl::Status LaunchCheckedSpans(absl::Span<const CopySpan> spans,
                                       const LaunchTarget& target) {
  constexpr int kFew = 16;  // a smaller table is queued quicker
  if (spans.size() <= kFew) return LaunchCopySpansOf<kFew>(spans, target);
  return LaunchCopySpansOf<static_cast<int>(kMaxCopySpans)>(spans, target);
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::landing
