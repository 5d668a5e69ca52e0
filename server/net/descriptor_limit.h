// The limit on the process's file descriptors.
#pragma once

#include <cstddef>

namespace gemmd {

// Raises the limit as far as the system lets the process, and returns it.
std::size_t RaiseDescriptorLimit();

// Returns how many of so many descriptors connections may have: the rest is left for files, shared
// memory and drivers.
std::size_t DescriptorsForConnections(std::size_t limit);

}  // namespace gemmd
