#include "server/scheduling/rows_planner.h"

#include <utility>

#include "server/device/rows.h"

namespace gemmd {
std::optional<RowsPlan> RowsPlanner::PlanRows(const DeviceWork& work, std::int64_t rows) {
  RowsPlan rows_plan;
  rows_plan.problem = WithRows(work, rows);
  const Kernel::Traits& kernel = work.plan.kernel->traits();
  absl::StatusOr<Plan> plan = Select(*registry_, device_->Landed(rows_plan.problem),
                                     device_->traits(), kernel.name, plans_);
  if (!plan.ok()) return std::nullopt;
  if (kernel.determinism == Determinism::kBatchInvariant &&
      plan->numerics_id != work.plan.numerics_id) {
    return std::nullopt;
  }
  rows_plan.plan = *std::move(plan);
  return rows_plan;
}

}  // namespace gemmd
