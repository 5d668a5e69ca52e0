// Copies many short spans in one launch: rows between their own places in pinned host memory
// and a batch on the device. A copy engine takes more than a microsecond for each; a kernel
// that reads and writes host memory itself moves them side by side
// (docs/benchmarks/cuda-device.md).
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/kernel.h"

namespace gemmd {

// Bytes of memory that the device reads and writes: its own, or pinned memory of the host.
struct CopySpan {
  const void* from = nullptr;
  void* to = nullptr;
  std::uint64_t bytes = 0;
};

inline constexpr std::size_t kMaxCopySpans = 256;

// Copies each of the spans, which do not overlap; quickest where addresses and lengths are
// multiples of 16. Queues on target.stream, or runs to its end in *target.emulator.
// Thread-safe.
// INVALID_ARGUMENT: no spans, more than kMaxCopySpans, or one that is null or empty.
// UNIMPLEMENTED: target.stream without CUDA in this build. INTERNAL: the launch failed.
absl::Status LaunchCopySpans(absl::Span<const CopySpan> spans, const LaunchTarget& target);

}  // namespace gemmd
