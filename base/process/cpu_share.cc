#include "base/process/cpu_share.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/process/control_groups.h"

namespace gemmd {
namespace {

constexpr char kQuotaOfFirst[] = "cpu.cfs_quota_us";
constexpr char kPeriodOfFirst[] = "cpu.cfs_period_us";

// The CPUs of a quota "50000" in each "100000" us; 0: "max", -1, or no such numbers.
double CpusOf(absl::string_view quota, absl::string_view period) {
  double quota_us = 0;
  double period_us = 0;
  if (!absl::SimpleAtod(quota, &quota_us) || !absl::SimpleAtod(period, &period_us)) return 0;
  return quota_us > 0 && period_us > 0 ? quota_us / period_us : 0;
}

double QuotaOf(const std::string& path) {
  const std::string line = FirstLine(path);
  const std::size_t name = path.rfind('/') + 1;
  if (path.substr(name) == kQuotaOfFirst) {
    return CpusOf(line, FirstLine(path.substr(0, name) + kPeriodOfFirst));
  }
  const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
  return words.size() == 2 ? CpusOf(words[0], words[1]) : 0;
}

int OnlineCpus() { return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN))); }

// A machine may have more CPUs than cpu_set_t has bits; then the system says so.
int AllowedCpus() {
  constexpr int kMostCpus = 1 << 20;
  for (int cpus = CPU_SETSIZE; cpus <= kMostCpus; cpus *= 2) {
    const std::size_t bytes = CPU_ALLOC_SIZE(cpus);
    std::vector<cpu_set_t> set(bytes / sizeof(cpu_set_t) + 1);
    if (sched_getaffinity(getpid(), bytes, set.data()) == 0) {
      return std::max(1, CPU_COUNT_S(bytes, set.data()));
    }
    if (errno != EINVAL) break;
  }
  return OnlineCpus();
}

}  // namespace

CpuShare LeastCpus(int allowed, int online, const std::string& root) {
  CpuShare share{allowed, allowed < online ? "the process's affinity" : "the machine's"};
  for (const std::string& path : GroupPaths({"cpu", "cpu.max", kQuotaOfFirst}, root)) {
    const double quota = std::ceil(QuotaOf(path));
    if (quota > 0 && quota < share.cpus) share = {static_cast<int>(quota), path};
  }
  return share;
}

const CpuShare& ThisCpuShare() {
  static const CpuShare share = LeastCpus(AllowedCpus(), OnlineCpus(), "");
  return share;
}

}  // namespace gemmd
