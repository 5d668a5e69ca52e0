// What is missing, carried on a NOT_FOUND; server/rpc tells it in the answer's details.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"

namespace gemmd {

inline constexpr char kMissingDigestUrl[] = "gemmd/missing-digest";
inline constexpr char kMissingHandleUrl[] = "gemmd/missing-handle";

// REQUIRES: !status.ok(). `url` is one of those above; `value` the 32 bytes, or the handle.
inline absl::Status WithMissing(absl::Status status, const char* url, absl::string_view value) {
  status.SetPayload(url, absl::Cord(value));
  return status;
}

// Empty: none was set.
inline std::string MissingOf(const absl::Status& status, const char* url) {
  const absl::optional<absl::Cord> payload = status.GetPayload(url);
  return payload.has_value() ? std::string(*payload) : std::string();
}

}  // namespace gemmd
