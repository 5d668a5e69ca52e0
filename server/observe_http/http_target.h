// The page and the host that a request names (RFC 9112, 3.2).
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gemmd {

struct HttpTarget {
  std::string path;  // without what follows a "?"
  std::string host;  // "HOST" or "HOST:PORT"; empty: none came
};

// Reads a target, "/metrics" or "http://HOST/metrics", with the values of all Host headers. A host
// in the target counts instead of the header's. INVALID_ARGUMENT: the target is of neither form, or
// there are several Host headers, or none where `needs_host`, as in HTTP/1.1.
absl::StatusOr<HttpTarget> ReadHttpTarget(absl::string_view target,
                                          const std::vector<std::string>& hosts, bool needs_host);

}  // namespace gemmd
