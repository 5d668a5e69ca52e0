// Missing operands, carried on a NOT_FOUND; server/rpc tells it in the answer's details.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gemmd {

struct MissingOperands {
  std::vector<std::string> digests;  // 32 bytes each
  std::vector<std::string> handles;
  std::vector<std::string> names = {};
};

// REQUIRES: !status.ok().
absl::Status WithMissing(absl::Status status, const MissingOperands& missing);

// Empty: none was set.
MissingOperands MissingOf(const absl::Status& status);

// The first status, missing what both miss.
absl::Status MergeMissing(absl::Status first, const absl::Status& second);

}  // namespace gemmd
