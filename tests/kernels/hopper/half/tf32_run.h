// Runs of the Hopper GEMM's entries of tf32 in the emulator.
#pragma once

#include <string>
#include <vector>

#include "kernels/gemm.h"
#include "kernels/hopper/half/tilings.h"
#include "tests/kernels/hopper/half/tf32_planes.h"

namespace gemmd::testing {

// Returns the names of all entries.
inline std::vector<std::string> AllTf32Entries() {
  std::vector<std::string> names;
  for (const hopper::half::Tiling& tiling : hopper::half::kTilings) {
    if (!tiling.has_epilogue) continue;
    names.push_back(std::string(tiling.name).insert(sizeof("sm90/") - 1, "tf32_"));
  }
  return names;
}

inline const Kernel& Tf32Kernel(const std::string& name) { return *BuiltinRegistry().Find(name); }

struct Tf32Run : Tf32Planes {
  using Tf32Planes::Tf32Planes;

  emulator::Report Launch(const std::string& name, const Config& config,
                          const emulator::Options& options) {
    return LaunchBy(
        [&](const Arguments& arguments, const LaunchTarget& target) {
          return Tf32Kernel(name).Launch(problem, config, arguments, target);
        },
        1, options);
  }
  emulator::Report Launch(const std::string& name, const emulator::Options& options) {
    DeviceTraits device;
    device.kind = DeviceKind::kEmulated;
    return Launch(name, Tf32Kernel(name).Configure(problem, device), options);
  }
};

}  // namespace gemmd::testing
