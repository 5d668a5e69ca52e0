#include "base/process/control_groups.h"

#include <algorithm>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace gemmd {

std::vector<std::string> GroupPaths(const GroupFile& file, const std::string& root) {
  std::vector<std::string> paths;
  std::ifstream groups(root + "/proc/self/cgroup");
  // "0::/a/b" of version 2, "9:memory,cpu:/a/b" of version 1.
  for (std::string line; std::getline(groups, line);) {
    const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const std::vector<absl::string_view> controllers = absl::StrSplit(parts[1], ',');
    const bool is_second = parts[1].empty();
    const absl::string_view name = is_second ? file.second : file.first;
    if (name.empty()) continue;
    if (!is_second && std::count(controllers.begin(), controllers.end(), file.controller) == 0) {
      continue;
    }
    const std::string hierarchy = absl::StrCat(root, "/sys/fs/cgroup", is_second ? "" : "/",
                                               is_second ? "" : file.controller);
    absl::string_view group = absl::StripSuffix(parts[2], "/");
    while (true) {
      paths.push_back(absl::StrCat(hierarchy, group, "/", name));
      const std::size_t slash = group.rfind('/');
      if (slash == absl::string_view::npos) break;
      group = group.substr(0, slash);
    }
  }
  return paths;
}

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace gemmd
