// Files written whole, that stay otherwise what they were.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace gemmd {

// Returns OK if WriteFile() can be expected to succeed. Call it before an expensive result is
// computed, which might have nowhere to go. Errors of every function here begin with the path.
absl::Status CheckWritable(const std::string& path);

// Writes the parts one after another.
//
// A new file appears whole or not at all, with the mode that open() would give it. A file that is
// there is replaced, whole or not at all, by one of its mode, owner, group and extended attributes;
// a symbolic link stays, and the file that it leads to is replaced. A file whose place no other can
// take is written in place, once the file system has room for all: one with several names, with an
// owner whom we cannot give, on a mount of its own, or in a folder that we may not write. Where
// that fails, the bytes stay in a file beside it, which the error names.
//
// Devices, pipes and descriptors are written as they are: - is standard output, /dev/fd/3 another.
//
// Not synchronised to disk: it guards against a process that dies, not a machine.
absl::Status WriteFile(const std::string& path, absl::Span<const absl::string_view> parts);

}  // namespace gemmd
