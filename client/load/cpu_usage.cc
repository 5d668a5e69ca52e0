#include "client/load/cpu_usage.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <string>

#include "base/process/cpu_share.h"
#include "base/time/units.h"

namespace gemmd::load {
namespace {

TimeNs Read(clockid_t clock) {
  timespec now = {};
  clock_gettime(clock, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

// The first line of /proc/stat: ticks of user, nice, system, idle, iowait, irq, softirq,
// steal. Stolen time is somebody else's machine, but time that nobody here had.
double MachineBusySeconds() {
  std::ifstream file("/proc/stat");
  std::string word;
  file >> word;
  double busy = 0;
  for (int i = 0; i < 8; ++i) {
    double ticks = 0;
    file >> ticks;
    if (i != 3 && i != 4) busy += ticks;
  }
  if (!file || word != "cpu") return -1;
  return busy / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

CpuReading ReadCpu() {
  CpuReading reading;
  reading.time_ns = Read(CLOCK_MONOTONIC);
  reading.process_ns = Read(CLOCK_PROCESS_CPUTIME_ID);
  reading.machine_busy_s = MachineBusySeconds();
  reading.machine_cores = static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  reading.cores = UsableCpus();
  return reading;
}

CpuUsage UsageBetween(const CpuReading& begin, const CpuReading& end) {
  CpuUsage usage;
  const auto wall_ns = static_cast<double>(std::max<TimeNs>(1, end.time_ns - begin.time_ns));
  usage.cores = end.cores;
  usage.process = static_cast<double>(end.process_ns - begin.process_ns) / (wall_ns * end.cores);
  if (begin.machine_busy_s >= 0 && end.machine_busy_s >= 0) {
    const double capacity_s = wall_ns / kSecond * end.machine_cores;
    usage.machine = std::min(1.0, (end.machine_busy_s - begin.machine_busy_s) / capacity_s);
  }
  return usage;
}

}  // namespace gemmd::load
