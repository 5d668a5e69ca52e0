#include "server/host_limits.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/process/cpu_share.h"
#include "server/net/descriptor_limit.h"
#include "server/observe/log.h"

namespace gemmd {
namespace {

// CUDA 13's (CUDA Toolkit release notes, table "CUDA Toolkit and Corresponding Driver Versions").
constexpr int kDriverFloor = 580;
// Containers have 64 MiB unless told otherwise, and a large matrix alone is more.
constexpr std::uint64_t kFewSharedBytes = std::uint64_t{1} << 30;

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

// "580.159.04" of "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Release ..."; empty:
// there is none. The second line has the compiler's.
absl::string_view DriverVersion(absl::string_view text) {
  const absl::string_view line = text.substr(0, text.find('\n'));
  for (const absl::string_view word : absl::StrSplit(line, ' ')) {
    const std::size_t dot = word.find('.');
    const bool is_version = dot != 0 && dot != absl::string_view::npos &&
                            word.find_first_not_of("0123456789.") == absl::string_view::npos;
    if (is_version) return word;
  }
  return {};
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

HostFacts ReadHostFacts() {
  std::ifstream file("/proc/driver/nvidia/version");
  return {std::string(std::istreambuf_iterator<char>(file), {}), SharedMemoryBytes()};
}

std::vector<std::string> LacksOf(const HostFacts& facts, const HostNeeds& needs) {
  std::vector<std::string> lacks;
  const absl::string_view driver = DriverVersion(facts.driver);
  int major = kDriverFloor;
  if (needs.may_use_gpus && absl::SimpleAtoi(driver.substr(0, driver.find('.')), &major) &&
      major < kDriverFloor) {
    lacks.push_back(absl::StrCat(
        "NVIDIA's driver is ", driver, ", and CUDA 13 needs ", kDriverFloor,
        " or later: update the host's driver, or add CUDA's forward compatibility package"));
  }
  if (facts.shared_memory_bytes < std::min(needs.region_bytes, kFewSharedBytes)) {
    lacks.push_back(absl::StrCat(
        "/dev/shm has ", facts.shared_memory_bytes, " bytes, and clients may share ",
        needs.region_bytes, " (--shared-memory.max-bytes): make it larger by --shm-size, or an ",
        "emptyDir of medium Memory"));
  }
  return lacks;
}

void LogHostLacks(const HostNeeds& needs) {
  for (const std::string& each : LacksOf(ReadHostFacts(), needs)) {
    Log(Severity::kWarning, "host_lacks", {{"what", each}});
  }
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
