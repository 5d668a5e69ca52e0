// Options of the schedulers, from the configuration.
#pragma once

#include "absl/status/statusor.h"
#include "server/options/config.pb.h"
#include "server/scheduling/scheduler.h"

namespace gemmd {

// INVALID_ARGUMENT: one of tenant_weights is not NAME=WEIGHT with a positive weight.
absl::StatusOr<SchedulerOptions> SchedulingOptions(const config::Scheduling& config);

}  // namespace gemmd
