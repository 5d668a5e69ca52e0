// First launches, so that no request pays for modules, handles and the like.
#pragma once

#include "absl/status/status.h"
#include "kernels/gemm.h"
#include "server/device/device.h"

namespace gemmd {

// Runs every kernel of the registry that this device has on a small problem, one work in panels,
// and groups. The first error of a work.
absl::Status WarmUp(const Registry& registry, Device* device);

}  // namespace gemmd
