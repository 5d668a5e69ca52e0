// Several servers as people write them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gemmd {

// The servers that one client may have.
inline constexpr std::size_t kMostServers = 256;

// Returns each entry as ServerTarget() has it.
//
// INVALID_ARGUMENT names the field and the entry: it is empty, ServerTarget() refuses it, it is
// there twice, or there are too many.
absl::StatusOr<std::vector<std::string>> ServerTargets(absl::string_view field,
                                                       const std::vector<std::string>& entries);

// Splits "a:50051,b:50051". A text that begins with ipv4: or ipv6: is one entry, whose commas are
// gRPC's.
std::vector<std::string> ServerEntries(absl::string_view list);

// A name that may have several addresses, each of them a server's.
struct NameAndPort {
  std::string name;
  std::string port;
};

// Reads the target dns:///NAME:PORT. Absent: NAME is an address, or it is another kind of target.
std::optional<NameAndPort> NameOfServers(absl::string_view target);

}  // namespace gemmd
