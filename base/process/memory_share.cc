#include "base/process/memory_share.h"

#include <sys/resource.h>
#include <unistd.h>

#include <limits>

#include "absl/strings/numbers.h"
#include "base/process/control_groups.h"

namespace gemmd {
namespace {

void Lower(const GroupFile& file, const std::string& root, MemoryBound* bound) {
  for (const std::string& path : GroupPaths(file, root)) {
    std::uint64_t bytes = 0;
    // "max" is no bound, and a missing file none either.
    if (!absl::SimpleAtoi(FirstLine(path), &bytes) || bytes >= bound->bytes) continue;
    *bound = {bytes, path};
  }
}

}  // namespace

MemoryShare LeastMemory(std::uint64_t machine_bytes, std::uint64_t address_space_bytes,
                        const std::string& root) {
  MemoryShare share;
  share.deadly = {std::numeric_limits<std::uint64_t>::max(), "nothing"};
  Lower({"memory", "memory.max", "memory.limit_in_bytes"}, root, &share.deadly);
  share.usable = {machine_bytes, "the machine's"};
  if (share.deadly.bytes < machine_bytes) share.usable = share.deadly;
  Lower({"memory", "memory.high", ""}, root, &share.usable);
  if (address_space_bytes / 2 < share.usable.bytes) {
    share.usable = {address_space_bytes / 2, "half of the address space (RLIMIT_AS)"};
  }
  return share;
}

MemoryShare ThisMemoryShare() {
  rlimit limit{};
  const std::uint64_t address_space = getrlimit(RLIMIT_AS, &limit) == 0
                                          ? limit.rlim_cur
                                          : std::numeric_limits<std::uint64_t>::max();
  return LeastMemory(static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                         static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)),
                     address_space, "");
}

}  // namespace gemmd
