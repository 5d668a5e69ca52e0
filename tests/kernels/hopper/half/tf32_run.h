// Runs of the Hopper GEMM's entries of tf32 in the emulator.
#pragma once

#include "kernels/gemm.h"
#include "tests/kernels/hopper/half/tf32_planes.h"

namespace gemmd::testing {

inline constexpr const char* kTf32Entries[] = {"sm90/tf32_coop128x256c2", "sm90/tf32_coop128x256",
                                               "sm90/tf32_pp128x192c2",   "sm90/tf32_one64x128",
                                               "sm90/tf32_one64x64",      "sm90/tf32_one64x128c2",
                                               "sm90/tf32_coop128x128c2"};

inline const Kernel& Tf32Kernel(const char* name) { return *BuiltinRegistry().Find(name); }

struct Tf32Run : Tf32Planes {
  using Tf32Planes::Tf32Planes;

  emulator::Report Launch(const char* name, const Config& config,
                          const emulator::Options& options) {
    return LaunchBy(
        [&](const Arguments& arguments, const LaunchTarget& target) {
          return Tf32Kernel(name).Launch(problem, config, arguments, target);
        },
        1, options);
  }
  emulator::Report Launch(const char* name, const emulator::Options& options) {
    DeviceTraits device;
    device.kind = DeviceKind::kEmulated;
    return Launch(name, Tf32Kernel(name).Configure(problem, device), options);
  }
};

}  // namespace gemmd::testing
