// The memory that this process may use.
#pragma once

#include <cstdint>
#include <string>

namespace gemmd {

struct MemoryBound {
  std::uint64_t bytes = 0;
  std::string because;  // "the machine's" or a file's path
};

struct MemoryShare {
  // The least of the machine's memory, its control groups' memory.max and memory.high
  // (beyond which it is slowed down), and half of its address space, of which code, stacks and
  // allocators take a part.
  MemoryBound usable;
  // Beyond this the kernel ends the process: memory.max of its groups. Without one, any number.
  MemoryBound deadly;
};

// Memory and address space in bytes; `root` is as GroupPaths() has it.
MemoryShare LeastMemory(std::uint64_t machine_bytes, std::uint64_t address_space_bytes,
                        const std::string& root);

// This process's, as it is now.
MemoryShare ThisMemoryShare();
inline std::uint64_t UsableMemoryBytes() { return ThisMemoryShare().usable.bytes; }

}  // namespace gemmd
