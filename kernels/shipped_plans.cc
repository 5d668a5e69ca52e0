#include "kernels/shipped_plans.h"

#include <cstdio>
#include <cstdlib>

#include "kernels/shipped_plans_text.h"

namespace gemmd {

const PlanCache& ShippedPlans() {
  static const PlanCache* const plans = [] {
    absl::StatusOr<PlanCache> read = PlanCache::FromJson(kShippedPlansH200, "shipped");
    if (!read.ok()) {
      std::fprintf(stderr, "shipped plans: %s\n", read.status().ToString().c_str());
      std::abort();
    }
    return new PlanCache(*read);
  }();
  return *plans;
}

}  // namespace gemmd
