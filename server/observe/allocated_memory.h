// Counts the memory that the process has from its allocator.
#pragma once

#include <cstdint>

namespace gemmd {

// Bytes that were allocated and not freed: jemalloc's count. 0: another allocator is linked, a
// sanitizer's for example, and nobody knows. Costs a lock of each of the allocator's arenas.
std::uint64_t AllocatedBytes();

}  // namespace gemmd
