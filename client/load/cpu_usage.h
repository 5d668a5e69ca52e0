// Measures how busy this process and its machine are, so that a load generator can tell when it
// measures itself.
#pragma once

#include "client/load/clock.h"

namespace gemmd::load {

struct CpuReading {
  TimeNs time_ns = 0;          // on the wall
  TimeNs process_ns = 0;       // of all threads of this process
  double machine_busy_s = -1;  // of all cores since boot; below 0 where unknown
  int cores = 1;               // that this process may run on
  int machine_cores = 1;
};

// Use of processors between two readings.
struct CpuUsage {
  double process = 0;   // share of the cores that this process may use, 0 to 1
  double machine = -1;  // share of all cores, whoever used them; below 0 where unknown
  int cores = 1;
};

CpuReading ReadCpu();
CpuUsage UsageBetween(const CpuReading& begin, const CpuReading& end);

}  // namespace gemmd::load
