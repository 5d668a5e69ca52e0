// What is told to whom the server turns away because it is to stop.
#pragma once

#include "absl/status/status.h"

namespace gemmd {

// UNAVAILABLE.
absl::Status DrainingError();

// Whether it is that status, which server/rpc tells in the answer's details.
bool IsDraining(const absl::Status& status);

}  // namespace gemmd
