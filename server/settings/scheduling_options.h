// Options of the schedulers, from the configuration.
#pragma once

#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/options/config.pb.h"
#include "server/scheduling/scheduler.h"

namespace gemmd {

// INVALID_ARGUMENT: one of tenant_weights is not NAME=WEIGHT with a positive weight.
absl::StatusOr<SchedulerOptions> SchedulingOptions(const config::Scheduling& config);

// Names between commas.
std::set<std::string> NamesOf(absl::string_view list);

}  // namespace gemmd
