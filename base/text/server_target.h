// Addresses of servers as people write them, and as gRPC is given them.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gemmd {

// The port of a server that an address without one means.
inline constexpr int kDefaultPort = 50051;

// Returns what gRPC is to resolve for such an address: HOST or HOST:PORT, with an IPv6 address in
// brackets; a path after "unix:" or a name after "unix-abstract:"; or with a scheme that gRPC
// knows: dns:///HOST:PORT, ipv4: and ipv6: with a list of addresses, xds:///NAME. The default port
// stands where none was given.
//
// INVALID_ARGUMENT names the field, its value and what is accepted. gRPC itself takes a missing
// port for 443, the rest of port / 65536 for any other, and a blank or http:// for a part of the
// name.
absl::StatusOr<std::string> ServerTarget(absl::string_view field, absl::string_view address);

}  // namespace gemmd
