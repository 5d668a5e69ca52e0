// Finds how much memory the process may have.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gemmd {

// The limits on the process's memory. A value, so that tests make their own.
struct MemoryBounds {
  std::uint64_t machine_bytes = 0;
  // See GroupFiles(). One that is not there bounds nothing, and neither does one that says "max".
  std::vector<std::string> group_files;
  std::uint64_t address_space_bytes = 0;  // RLIMIT_AS; RLIM_INFINITY is over everything
};

// The least of the bounds. Stacks, libraries and what the allocator keeps for later take addresses
// too, so that half of those is not counted as memory.
std::uint64_t LeastOf(const MemoryBounds& bounds);

// The files that bound the memory of a process in control groups of version 2 and 1: of its own
// groups, and of those around them. `groups`: what /proc/self/cgroup says.
std::vector<std::string> GroupFiles(const std::string& groups);

// The memory that this process may have: the machine's, or what a container or RLIMIT_AS leaves of
// it.
std::uint64_t ProcessMemoryBytes();

}  // namespace gemmd
