// The tracer as the configuration wants it.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "base/time/clock.h"
#include "server/options/config.pb.h"
#include "server/trace/tracer.h"

namespace gemmd {

// The clock outlives it. INVALID_ARGUMENT: the collector's address is none.
absl::StatusOr<std::unique_ptr<Tracer>> MakeTracer(const config::Observe& config,
                                                   const Clock* clock);

}  // namespace gemmd
