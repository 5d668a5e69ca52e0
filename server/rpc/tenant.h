// Who calls.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"
#include "server/store/tenant.h"

namespace gemmd {

// As operands.proto says. INVALID_ARGUMENT: a name that is none. PERMISSION_DENIED: another
// one than the client's certificate has.
absl::StatusOr<Tenant> TenantOf(const grpc::ServerContextBase& context);

struct Caller {
  std::uint64_t connection = 0;  // equal for calls of one connection; hardly ever for those of two
  std::string address;           // as AddressOf() has it
};
Caller CallerOf(const grpc::ServerContextBase& context);

}  // namespace gemmd
