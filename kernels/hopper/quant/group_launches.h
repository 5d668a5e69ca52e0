// Groups of the rows of a product as launches: which tiling takes which of
// them, the time that they are expected to take, and the launches themselves.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "kernels/device_traits.h"
#include "kernels/hopper/quant/groups.h"
#include "kernels/kernel.h"
#include "kernels/problem.h"

namespace gemmd::hopper::quant {

// Groups that have rows, by the tiling that takes them: those by which all are
// expected to take the least time on the device, of sm_90 or an emulated one.
struct GroupsByTiling {
  std::vector<PackedGroup> of_tiling[kGroupTilings];
  double predicted_us = 0;         // of these
  std::vector<PackedGroup> alone;  // no tiling takes them: products of their own
};
GroupsByTiling ByTiling(const Problem& problem, const RowGroups& groups,
                        const DeviceTraits& device);

// Queues all but those alone. `arguments`: all rows, and product 0's B and
// bias, which are a stack. REQUIRES: what Rejection() of the family says;
// groups.b_step is that of so many matrices.
absl::Status LaunchTilings(const GroupsByTiling& by_tiling, const Problem& problem,
                           const RowGroups& groups, const Arguments& arguments,
                           const LaunchTarget& target);

}  // namespace gemmd::hopper::quant
