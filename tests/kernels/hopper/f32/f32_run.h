// Runs the registry entry sm90/f32_bf16x6 in the emulator.
#pragma once

#include "kernels/gemm.h"
#include "kernels/hopper/f32/tilings.h"
#include "tests/kernels/hopper/common/f32_planes.h"

namespace gemmd::testing {

inline constexpr const char* kF32Entry = "sm90/f32_bf16x6";

inline const Kernel& F32Kernel() { return *BuiltinRegistry().Find(kF32Entry); }

// The config that Configure() gives a tiling, but that it walks the tiles in small groups.
inline Config F32Config(int tiling) {
  const hopper::f32::Tiling& values = hopper::f32::kTilings[tiling];
  Config config;
  config.tile_m = values.columns();
  config.tile_n = values.rows();
  config.tile_k = 64;
  config.stages = values.max_stages;
  config.warps = 4 * (values.row_groups * values.column_groups + 1);
  config.raster_group = 2;
  return config;
}

inline emulator::Report LaunchF32(F32Run* run, int tiling, const emulator::Options& options) {
  const Config config = F32Config(tiling);
  return run->LaunchBy(
      [&](const Arguments& arguments, const LaunchTarget& target) {
        return F32Kernel().Launch(run->problem, config, arguments, target);
      },
      F32Kernel().WorkspaceBytes(run->problem, config), options);
}

}  // namespace gemmd::testing
