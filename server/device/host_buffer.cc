#include "server/device/host_buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace gemmd {

std::uint64_t SizeOf(const HostBuffer& buffer) {
  std::uint64_t bytes = 0;
  for (const HostPiece& piece : buffer) bytes += piece.size_bytes;
  return bytes;
}

HostBuffer AllocateHostBuffer(std::uint64_t bytes) {
  // Large results take huge pages: first touches of small ones would cost more than the
  // stores.
  constexpr std::uint64_t kCacheLine = 64;
  constexpr std::uint64_t kHugePage = 2 << 20;
  const std::uint64_t alignment = bytes >= kHugePage ? kHugePage : kCacheLine;
  const std::uint64_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* const memory = std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) return {};
  if (alignment == kHugePage) {
    madvise(memory, rounded, MADV_HUGEPAGE);  // a hint: without it, small pages serve
  }
  return {{static_cast<char*>(memory), bytes, std::shared_ptr<void>(memory, std::free)}};
}

void ClearPadding(const MatrixLayout& layout, const HostBuffer& buffer) {
  const auto bytes = [&layout](std::int64_t elements) {
    return static_cast<std::uint64_t>(elements) *
           static_cast<std::uint64_t>(SizeBits(layout.type)) / 8;
  };
  const std::uint64_t line_bytes = bytes(layout.leading_dimension);
  const std::uint64_t used_bytes = bytes(layout.inner());
  if (line_bytes == used_bytes) return;
  std::uint64_t begin = 0;  // of the piece, in the plane
  for (const HostPiece& piece : buffer) {
    const std::uint64_t end = begin + piece.size_bytes;
    for (std::uint64_t line = begin / line_bytes; line * line_bytes < end; ++line) {
      const std::uint64_t from = std::max(begin, line * line_bytes + used_bytes);
      const std::uint64_t to = std::min(end, (line + 1) * line_bytes);
      if (from < to) std::memset(piece.data + (from - begin), 0, to - from);
    }
    begin = end;
  }
}

}  // namespace gemmd
