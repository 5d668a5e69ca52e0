// The control groups by which Linux bounds a process and those beside it: a container's, a
// service's.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace gemmd {

// A file of a group, as either version of control groups has it.
struct GroupFile {
  absl::string_view controller;  // "memory", by which version 1 tells its hierarchies apart
  absl::string_view second;      // "memory.max"; empty: version 2 has none
  absl::string_view first;       // "memory.limit_in_bytes"; empty: version 1 has none
};

// The paths of that file in this process's group and in those around it, the innermost first: each
// of them bounds the process. `root` stands before /proc and /sys, for tests. In a container these
// may name groups of the host that are not there to be read; the outermost then is the container's.
std::vector<std::string> GroupPaths(const GroupFile& file, const std::string& root);

// The first line of a file; empty where there is none to be read.
std::string FirstLine(const std::string& path);

}  // namespace gemmd
