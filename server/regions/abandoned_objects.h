// Shared memory of clients that died.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace gemmd {

// The end of the names of objects whose client holds an flock on them as long as it uses them.
inline constexpr absl::string_view kLockedSuffix = ".flock";

// Removes the objects whose names have that prefix and kLockedSuffix, and whose lock nobody holds:
// a client that was killed could not. Those that this process may not open or remove stay. The
// prefix has no slash, and is not empty.
void RemoveAbandonedObjects(const std::string& prefix);

}  // namespace gemmd
