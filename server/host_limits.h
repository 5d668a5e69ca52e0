// The limits that the host sets to the process, told and heeded at the start.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/process/memory_share.h"

namespace gemmd {

// Writes a line that says how many CPUs and how much memory the process may use, and because of
// what.
void LogHostLimits();

// RESOURCE_EXHAUSTED: the option's bytes alone are more than the process may have, so that the
// kernel would end it once they are used.
absl::Status CheckMemoryOption(absl::string_view option, std::int64_t bytes,
                               const MemoryShare& share);

// RESOURCE_EXHAUSTED: the process may open too few files to start, and so would end in gRPC.
absl::Status CheckDescriptors();

}  // namespace gemmd
