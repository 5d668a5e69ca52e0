// Plans the rows of several works as one product.
#pragma once

#include <cstdint>
#include <optional>

#include "server/device/launch.h"

namespace gemmd {

struct RowsPlan {
  Problem problem;  // that has all rows
  Plan plan;        // for it, landed
};

// Thread-safe.
class BatchPlanner {
 public:
  virtual ~BatchPlanner() = default;
  // Plans a product of `rows` rows that is otherwise like the work's. Nullopt: no plan gives the
  // rows the bits they have alone (the work's class being batch_invariant), or none is legal.
  // It is called once a launch, without the scheduler's lock.
  virtual std::optional<RowsPlan> PlanRows(const DeviceWork& work, std::int64_t rows) = 0;
};

}  // namespace gemmd
