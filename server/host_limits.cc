#include "server/host_limits.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/process/cpu_share.h"
#include "server/net/descriptor_limit.h"
#include "server/observe/log.h"

namespace gemmd {
namespace {

// The server has some 40 when it serves nobody.
constexpr std::size_t kFewestDescriptors = 64;

// Returns how many more files the process may open, and no more than it needs.
std::size_t FreeDescriptors() {
  std::vector<int> opened;
  while (opened.size() < kFewestDescriptors) {
    const int copy = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) break;
    opened.push_back(copy);
  }
  for (const int each : opened) close(each);
  return opened.size();
}

std::string LockableMemory() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return "unknown";
  return limit.rlim_cur == RLIM_INFINITY ? "unlimited" : absl::StrCat(limit.rlim_cur);
}

std::uint64_t SharedMemoryBytes() {
  struct statvfs info {};
  return statvfs("/dev/shm", &info) == 0 ? std::uint64_t{info.f_blocks} * info.f_frsize : 0;
}

std::string VisibleGpus() {
  const char* const which = std::getenv("CUDA_VISIBLE_DEVICES");
  return which == nullptr ? "all" : which;
}

}  // namespace

void LogHostLimits() {
  const CpuShare& cpus = ThisCpuShare();
  const MemoryBound memory = ThisMemoryShare().usable;
  Log(Severity::kInfo, "host_limits",
      {{"cpus", cpus.cpus},
       {"cpus_because", cpus.because},
       {"memory_bytes", memory.bytes},
       {"memory_because", memory.because},
       {"lockable_bytes", LockableMemory()},
       {"shared_memory_bytes", SharedMemoryBytes()},
       {"gpus", VisibleGpus()}});
}

absl::Status CheckMemoryOption(absl::string_view option, std::int64_t bytes,
                               const MemoryShare& share) {
  if (static_cast<std::uint64_t>(bytes) <= share.deadly.bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(option, " is ", bytes, "; the process may have ", share.deadly.bytes,
                   " bytes, and ends if it takes more (", share.deadly.because, ")"));
}

absl::Status CheckDescriptors() {
  const std::size_t limit = RaiseDescriptorLimit();
  const std::size_t free = FreeDescriptors();
  if (free >= kFewestDescriptors) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the process may open ", free, " more files; it needs ", kFewestDescriptors,
                   " to start (RLIMIT_NOFILE is ", limit, ": ulimit -n, LimitNOFILE)"));
}

}  // namespace gemmd
