// The limits that the host sets to the process, told and heeded at the start.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/process/memory_share.h"

namespace gemmd {

// Writes a line that says how many CPUs and how much memory the process may use, and because of
// what.
void LogHostLimits();

struct HostFacts {
  std::string driver;                     // /proc/driver/nvidia/version; empty: there is none
  std::uint64_t shared_memory_bytes = 0;  // of /dev/shm, in use or not
};
HostFacts ReadHostFacts();

struct HostNeeds {
  bool may_use_gpus = false;
  std::uint64_t region_bytes = 0;  // that clients may share; 0: none
};

// Says of each thing that is too little for these needs what it is, and what helps. The server
// starts all the same: a driver may be made up for, and small regions fit.
std::vector<std::string> LacksOf(const HostFacts& facts, const HostNeeds& needs);

// Writes a line for each.
void LogHostLacks(const HostNeeds& needs);

// RESOURCE_EXHAUSTED: the option's bytes alone are more than the process may have, so that the
// kernel would end it once they are used.
absl::Status CheckMemoryOption(absl::string_view option, std::int64_t bytes,
                               const MemoryShare& share);

// RESOURCE_EXHAUSTED: the process may open too few files to start, and so would end in gRPC.
absl::Status CheckDescriptors();

}  // namespace gemmd
