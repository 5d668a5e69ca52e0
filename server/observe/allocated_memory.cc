#include "server/observe/allocated_memory.h"

#include <cstddef>

// jemalloc's, where a program links it (jemalloc(3), stats.allocated).
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" __attribute__((weak)) int mallctl(const char* name, void* old_value,
                                             std::size_t* old_bytes, void* new_value,
                                             std::size_t new_bytes);

namespace gemmd {

std::uint64_t AllocatedBytes() {
  if (mallctl == nullptr) return 0;
  // The counts are as of the last epoch.
  std::uint64_t epoch = 1;
  std::size_t bytes = sizeof epoch;
  if (mallctl("epoch", &epoch, &bytes, &epoch, bytes) != 0) return 0;
  std::size_t allocated = 0;
  bytes = sizeof allocated;
  if (mallctl("stats.allocated", &allocated, &bytes, nullptr, 0) != 0) return 0;
  return allocated;
}

}  // namespace gemmd
