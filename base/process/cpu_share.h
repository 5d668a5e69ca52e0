// The number of CPUs that this process may use, of which all numbers of threads are made.
#pragma once

#include <string>

namespace gemmd {

struct CpuShare {
  int cpus = 1;
  std::string because;  // the bound that is the least: "the machine's" or a file's path
};

// The least of `allowed` and of the quotas of the process's control groups, rounded up. `allowed`
// is the number of CPUs of its affinity, of a machine that has `online`; `root` is as GroupPaths()
// has it.
CpuShare LeastCpus(int allowed, int online, const std::string& root);

// This process's: its affinity, which a set of CPUs of a control group narrows too, and its quotas.
// Read when first asked for.
const CpuShare& ThisCpuShare();
inline int UsableCpus() { return ThisCpuShare().cpus; }

}  // namespace gemmd
