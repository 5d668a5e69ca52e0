// Reads the process's use of resources from the system (proc(5)).
#pragma once

#include <cstdint>
#include <optional>

namespace gemmd {

struct ProcessUsage {
  double cpu_seconds = 0;  // of all threads, in user and system mode
  std::uint64_t resident_bytes = 0;
  std::uint64_t open_files = 0;
  std::uint64_t most_files = 0;
  double start_seconds = 0;  // since 1970, UTC
};

// None where /proc cannot be read.
std::optional<ProcessUsage> ReadProcessUsage();

}  // namespace gemmd
