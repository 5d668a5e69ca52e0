// The status of calls that the server refuses because it is to stop.
#pragma once

#include "absl/status/status.h"

namespace gemmd {

// UNAVAILABLE.
absl::Status DrainingError();

// Returns whether it is that status, which server/rpc puts into the answer's details.
bool IsDraining(const absl::Status& status);

}  // namespace gemmd
