// Who calls.
#pragma once

#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"
#include "server/store/tenant.h"

namespace gemmd {

// As operands.proto says. INVALID_ARGUMENT: a name that is none. PERMISSION_DENIED: another
// one than the client's certificate has.
absl::StatusOr<Tenant> TenantOf(const grpc::ServerContextBase& context);

}  // namespace gemmd
