// How much memory the process may have.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gemmd {

// What bounds it. A value, so that tests make their own.
struct MemoryBounds {
  std::uint64_t machine_bytes = 0;
  // Of control groups of version 2 and 1. One that is not there bounds nothing, and neither does
  // one that says "max".
  std::vector<std::string> group_files;
  std::uint64_t address_space_bytes = 0;  // RLIMIT_AS; RLIM_INFINITY is over everything
};

// The least of the bounds.
std::uint64_t LeastOf(const MemoryBounds& bounds);

// Of this process: the machine's memory, or what a container or RLIMIT_AS leaves of it.
std::uint64_t ProcessMemoryBytes();

}  // namespace gemmd
