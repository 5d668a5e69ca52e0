// Runs the registry entry sm90/f32_f16x3 in the emulator.
#pragma once

#include "kernels/gemm.h"
#include "kernels/hopper/f16x3/tilings.h"
#include "tests/kernels/hopper/f16x3/f16x3_planes.h"

namespace gemmd::testing {

inline constexpr const char* kF16x3Entry = "sm90/f32_f16x3";

inline const Kernel& F16x3Kernel() { return *BuiltinRegistry().Find(kF16x3Entry); }

// As Configure() gives a tiling's, but that it walks the tiles in small groups.
inline Config F16x3Config(int tiling) {
  const hopper::f16x3::Tiling& values = hopper::f16x3::kTilings[tiling];
  Config config;
  config.tile_m = values.columns();
  config.tile_n = values.rows();
  config.tile_k = 64;
  config.stages = values.max_stages;
  config.warps = 4 * (values.row_groups + 1);
  config.raster_group = 2;
  return config;
}

inline emulator::Report LaunchF16x3(F32Run* run, int tiling, const emulator::Options& options) {
  const Config config = F16x3Config(tiling);
  return run->LaunchBy(
      [&](const Arguments& arguments, const LaunchTarget& target) {
        return F16x3Kernel().Launch(run->problem, config, arguments, target);
      },
      F16x3Kernel().WorkspaceBytes(run->problem, config), options);
}

}  // namespace gemmd::testing
