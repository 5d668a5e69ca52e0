// The kernel behind copy_spans.h: a row of blocks along y for each span, which they share.
#pragma once

#include <cstdint>

#include "kernels/landing/copy_spans.h"
#include "kernels/ptx/global_memory.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/platform.h"

namespace gemmd::landing {

inline constexpr int kCopyThreads = 256;

inline namespace GEMMD_BACKEND {

// The table travels with the launch, so that nothing has to be copied before.
template <int kSpans>
struct CopySpansParams {
  CopySpan spans[kSpans];
};

template <typename Word>
GEMMD_DEVICE void CopyWords(const CopySpan& span) {
  const auto* from = static_cast<const Word*>(span.from);
  auto* to = static_cast<Word*>(span.to);
  const std::uint64_t words = span.bytes / sizeof(Word);
  const std::uint64_t step = std::uint64_t{ptx::GridSizeX()} * kCopyThreads;
  for (std::uint64_t i = ptx::BlockIndexX() * kCopyThreads + ptx::ThreadIndex(); i < words;
       i += step) {
    ptx::StoreGlobal(to + i, ptx::LoadGlobal(from + i));
  }
}

template <int kSpans>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(kCopyThreads, 2)
    CopySpans(GEMMD_GRID_CONSTANT const CopySpansParams<kSpans> params) {
  const CopySpan& span = params.spans[ptx::BlockIndexY()];
  const std::uint64_t alignment = reinterpret_cast<std::uint64_t>(span.from) |
                                  reinterpret_cast<std::uint64_t>(span.to) | span.bytes;
  if (alignment % sizeof(ptx::Vector4) == 0) {
    CopyWords<ptx::Vector4>(span);
  } else if (alignment % sizeof(std::uint32_t) == 0) {
    CopyWords<std::uint32_t>(span);
  } else if (alignment % sizeof(std::uint16_t) == 0) {
    CopyWords<std::uint16_t>(span);
  } else {
    CopyWords<std::uint8_t>(span);
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::landing
