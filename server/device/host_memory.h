// Memory that may be refused, for what a launch needs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace gemmd {

struct HostMemoryDeleter {
  void operator()(void* memory) const { std::free(memory); }
};
using HostMemory = std::unique_ptr<void, HostMemoryDeleter>;

// Aligned to 256 bytes, as kernels expect; null if there is none.
inline HostMemory AllocateHostMemory(std::uint64_t bytes) {
  constexpr std::uint64_t kAlignment = 256;
  const std::uint64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return HostMemory(std::aligned_alloc(kAlignment, std::max(rounded, kAlignment)));
}

}  // namespace gemmd
