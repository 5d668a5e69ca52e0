#include "server/scheduling/rows_planner.h"

#include <utility>

namespace gemmd {
namespace {

// op(A) and D are row-major, or they would share no launch (Device::FormOf).
Problem WithRows(const Problem& problem, std::int64_t rows) {
  Problem with = problem;
  with.m = with.a.rows = with.d.rows = rows;
  with.a.leading_dimension = with.a.inner();
  with.d.leading_dimension = with.d.inner();
  return with;
}

}  // namespace

std::optional<RowsPlan> RowsPlanner::PlanRows(const DeviceWork& work, std::int64_t rows) {
  RowsPlan rows_plan;
  rows_plan.problem = WithRows(work.problem, rows);
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
