// Runs the registry entry sm90/f64 in the emulator.
#pragma once

#include "kernels/gemm.h"
#include "kernels/hopper/f64/tilings.h"
#include "tests/kernels/hopper/f64/f64_planes.h"

namespace gemmd::testing {

inline constexpr const char* kF64Entry = "sm90/f64";

inline const Kernel& F64Kernel() { return *BuiltinRegistry().Find(kF64Entry); }

// The config that Configure() gives a tiling, but that it walks the tiles in small groups.
inline Config F64Config(int tiling) {
  const hopper::f64::Tiling& values = hopper::f64::kTilings[tiling];
  Config config;
  config.tile_m = values.columns();
  config.tile_n = values.rows();
  config.tile_k = values.stage_k;
  config.stages = values.max_stages;
  config.warps = values.warps();
  config.raster_group = 2;
  return config;
}

inline emulator::Report LaunchF64(F64Run* run, int tiling, const emulator::Options& options) {
  const Config config = F64Config(tiling);
  return run->LaunchBy(
      [&](const Arguments& arguments, const LaunchTarget& target) {
        return F64Kernel().Launch(run->problem, config, arguments, target);
      },
      options);
}

}  // namespace gemmd::testing
