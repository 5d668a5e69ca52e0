// Plans for rows of several works, chosen as for a request of that many rows.
#pragma once

#include "kernels/gemm.h"
#include "server/device/device.h"
#include "server/scheduling/batch_planner.h"

namespace gemmd {

class RowsPlanner final : public BatchPlanner {
 public:
  // All outlive the planner. `plans`: what was measured; null: nothing was.
  RowsPlanner(const Registry* registry, const Device* device, const PlanCache* plans)
      : registry_(registry), device_(device), plans_(plans) {}

  std::optional<RowsPlan> PlanRows(const DeviceWork& work, std::int64_t rows) override;

 private:
  const Registry* const registry_;
  const Device* const device_;
  const PlanCache* const plans_;
};

}  // namespace gemmd
