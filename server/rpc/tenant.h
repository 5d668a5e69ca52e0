// Who calls.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"
#include "server/store/tenant.h"

namespace gemmd {

// As operands.proto says. INVALID_ARGUMENT: a name that is none. PERMISSION_DENIED: another
// one than the client's certificate has.
absl::StatusOr<Tenant> TenantOf(const grpc::ServerContextBase& context);

// Equal for calls of one connection; hardly ever for those of two.
std::uint64_t ConnectionOf(const grpc::ServerContextBase& context);

}  // namespace gemmd
