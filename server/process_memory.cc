#include "server/process_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <limits>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace gemmd {

std::uint64_t LeastOf(const MemoryBounds& bounds) {
  std::uint64_t bytes = std::min(bounds.machine_bytes, bounds.address_space_bytes / 2);
  for (const std::string& path : bounds.group_files) {
    std::ifstream file(path);
    std::uint64_t limit = 0;
    if (file >> limit) bytes = std::min(bytes, limit);
  }
  return bytes;
}

std::vector<std::string> GroupFiles(const std::string& groups) {
  std::vector<std::string> files;
  // "0::/a/b" of version 2, "9:memory,cpu:/a/b" of version 1.
  for (const absl::string_view line : absl::StrSplit(groups, '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const std::vector<absl::string_view> controllers = absl::StrSplit(parts[1], ',');
    const bool is_second = parts[1].empty();
    if (!is_second && std::count(controllers.begin(), controllers.end(), "memory") == 0) continue;
    absl::string_view group = absl::StripSuffix(parts[2], "/");
    while (true) {
      files.push_back(absl::StrCat("/sys/fs/cgroup", is_second ? "" : "/memory", group,
                                   is_second ? "/memory.max" : "/memory.limit_in_bytes"));
      const std::size_t slash = group.rfind('/');
      if (slash == absl::string_view::npos) break;
      group = group.substr(0, slash);
    }
  }
  return files;
}

std::uint64_t ProcessMemoryBytes() {
  MemoryBounds bounds;
  bounds.machine_bytes = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                         static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  std::stringstream groups;
  groups << std::ifstream("/proc/self/cgroup").rdbuf();
  bounds.group_files = GroupFiles(groups.str());
  rlimit limit{};
  bounds.address_space_bytes = getrlimit(RLIMIT_AS, &limit) == 0
                                   ? limit.rlim_cur
                                   : std::numeric_limits<std::uint64_t>::max();
  return LeastOf(bounds);
}

}  // namespace gemmd
