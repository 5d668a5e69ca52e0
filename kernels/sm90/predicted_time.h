// What a tiling needs for a product on a Hopper device: waves of tiles, and the roofline.
#pragma once

#include "kernels/device_traits.h"
#include "kernels/problem.h"
#include "kernels/sm90/tilings.h"

namespace gemmd::sm90 {

// Microseconds. What it is for is the order of the tilings; figures behind its constants are
// in kernels/NOTES.md, Hopper. REQUIRES: device.kind is kCuda.
// `problems`: how many equal ones are one launch.
double PredictedTilingUs(const Tiling& tiling, const Problem& problem, std::int64_t problems,
                         const DeviceTraits& device);

// Rows of cluster tiles that are walked together.
int RasterGroup(const Tiling& tiling, const Problem& problem);

}  // namespace gemmd::sm90
