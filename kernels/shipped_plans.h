// Plans that were measured before this build, on devices that its makers had.
#pragma once

#include "kernels/plan_cache.h"

namespace gemmd {

// Those of plans/*.json; the process ends where they are malformed, which a test rules out. They
// are of kernels of ours alone, whose configs no vendor library numbers.
const PlanCache& ShippedPlans();

}  // namespace gemmd
