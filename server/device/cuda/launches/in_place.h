// Operands in other processes' memory of the device, used where they lie.
#pragma once

#include <cstdint>

#include "server/device/cuda/launches/out_of_core.h"
#include "server/device/device.h"

namespace gemmd {

// Makes factors that lie on the device already, as they would land, residents of the work, unless
// its panels would then need more memory than was reserved for it.
void UseInPlace(std::uint64_t panel_bytes, const PartCutter& cutter, DeviceWork* work);

}  // namespace gemmd
