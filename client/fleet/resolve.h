// The addresses of a name.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/text/server_list.h"

namespace gemmd::client {

// Targets of gRPC's, "10.0.0.7:50051". UNAVAILABLE: there is no such name, or nobody says.
using Resolve = std::function<absl::StatusOr<std::vector<std::string>>(const NameAndPort&)>;

// Asks this host's resolver, and waits for it. Where a name has addresses of both families, these
// are IPv4's: a host often has one of each, and would be two servers.
absl::StatusOr<std::vector<std::string>> ResolveByHost(const NameAndPort& name);

}  // namespace gemmd::client
