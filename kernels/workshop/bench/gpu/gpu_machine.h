// This machine's CUDA device as a Machine.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/workshop/bench/machine.h"

namespace gemmd::bench {

// Device 0, as the CUDA runtime counts what is visible. UNAVAILABLE: there is none, or this build
// has no device code; the message says which.
absl::StatusOr<std::unique_ptr<Machine>> OpenGpu();

}  // namespace gemmd::bench
