#include "server/process_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>

namespace gemmd {

std::uint64_t LeastOf(const MemoryBounds& bounds) {
  std::uint64_t bytes = std::min(bounds.machine_bytes, bounds.address_space_bytes);
  for (const std::string& path : bounds.group_files) {
    std::ifstream file(path);
    std::uint64_t limit = 0;
    if (file >> limit) bytes = std::min(bytes, limit);
  }
  return bytes;
}

std::uint64_t ProcessMemoryBytes() {
  MemoryBounds bounds;
  bounds.machine_bytes = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                         static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  bounds.group_files = {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
  rlimit limit{};
  bounds.address_space_bytes = getrlimit(RLIMIT_AS, &limit) == 0
                                   ? limit.rlim_cur
                                   : std::numeric_limits<std::uint64_t>::max();
  return LeastOf(bounds);
}

}  // namespace gemmd
