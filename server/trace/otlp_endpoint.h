// The address that spans are sent to: a collector's OTLP/HTTP receiver.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gemmd {

struct OtlpEndpoint {
  std::string host;  // a name or an address, without brackets
  std::string port;
  std::string target;  // "/v1/traces"

  // The form that a Host header has.
  std::string authority() const;
};

// "http://HOST[:PORT][/PATH]"; the port is 4318 and the path /v1/traces unless given, as OTLP has
// them. INVALID_ARGUMENT names the option, its value and what is accepted; https is not.
absl::StatusOr<OtlpEndpoint> ParseOtlpEndpoint(absl::string_view url);

}  // namespace gemmd
