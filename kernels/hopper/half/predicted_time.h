// Predicts a tiling's time for a product on a Hopper device, by waves of tiles and the roofline.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/config.h"
#include "kernels/device_traits.h"
#include "kernels/hopper/half/tilings.h"
#include "kernels/kernel.h"
#include "kernels/problem.h"

namespace gemmd::hopper::half {

// Returns a time in microseconds, which serves to order the tilings; figures behind its constants
// are in docs/lab/hopper-tiles.md. REQUIRES: device.kind is kCuda.
// `problems`: how many equal ones are one launch.
double PredictedTilingUs(const Tiling& tiling, const Problem& problem, std::int64_t problems,
                         const DeviceTraits& device);

// Return the time of groups of the problem's rows as one launch, and its clusters' tiles.
double PredictedGroupsUs(const Tiling& tiling, const Problem& problem, const RowGroups& groups,
                         const DeviceTraits& device);
double GroupTiles(const Tiling& tiling, const Problem& problem, const RowGroups& groups);

// Sets the order of tiles that measured best for such problems.
void SetRaster(const Tiling& tiling, const Problem& problem, Config* config);

// Every order worth measuring, that one first.
std::vector<Config> Rasters(const Tiling& tiling, const Problem& problem, const Config& planned);

}  // namespace gemmd::hopper::half
