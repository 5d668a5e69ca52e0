#include "server/scheduling/rows_planner.h"

#include <utility>

#include "server/device/rows.h"

namespace gemmd {

std::optional<RowsPlan> RowsPlanner::PlanRows(const DeviceWork& work, std::int64_t rows) {
  RowsPlan rows_plan;
  rows_plan.problem = WithRows(work, rows);
  absl::StatusOr<Plan> plan = memo_.Select(device_->Landed(rows_plan.problem), device_->traits(),
                                           work.plan.kernel->traits().name);
  if (!plan.ok()) return std::nullopt;
  // The class that counts is the one asked for, not the one served: where only kernels of class
  // fast can serve a request, the request's bits still must not depend on the load.
  if (work.problem.determinism == Determinism::kBatchInvariant &&
      plan->numerics_id != work.plan.numerics_id) {
    return std::nullopt;
  }
  rows_plan.plan = *std::move(plan);
  return rows_plan;
}

}  // namespace gemmd
