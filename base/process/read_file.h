// Files of an operator's, read whole: options, policies, keys, plans.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace gemmd {

// INVALID_ARGUMENT says what is wrong with it, as "cannot be read: Permission denied", and
// NOT_FOUND that there is none. Only a regular file is read, or a link to one, because a pipe or a
// terminal may never give a byte; and none that has more than `most_bytes`.
absl::StatusOr<std::string> ReadRegularFile(const std::string& path, std::size_t most_bytes);

}  // namespace gemmd
