// Collects the answer of Admin.Traces.
#pragma once

#include "absl/status/statusor.h"
#include "gemmd/v1/admin.pb.h"
#include "server/auth/identity.h"
#include "server/trace/tracer.h"

namespace gemmd {

// The newest requests that the caller may see: everybody's for observers and operators, and a
// user's own tenant's. It returns as many as were asked for, and 32 MiB at most.
// FAILED_PRECONDITION: nothing is remembered.
absl::StatusOr<v1::TracesResponse> CollectTimelines(const Tracer& tracer,
                                                    const v1::TracesRequest& request,
                                                    const Identity& caller, TimeNs now);

}  // namespace gemmd
