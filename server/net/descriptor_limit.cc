#include "server/net/descriptor_limit.h"

#include <sys/resource.h>

#include <algorithm>

namespace gemmd {

std::size_t RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  limit.rlim_cur = limit.rlim_max;
  // It may be refused, by a sandbox for example: then what was stays.
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<std::size_t>(limit.rlim_cur);
}

std::size_t DescriptorsForConnections(std::size_t limit) {
  constexpr std::size_t kForOthers = 1024;
  return limit - std::min(kForOthers, limit / 2);
}

}  // namespace gemmd
