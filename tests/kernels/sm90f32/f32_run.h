// Runs the registry entry sm90/f32_bf16x6 in the emulator.
#pragma once

#include "kernels/gemm.h"
#include "kernels/sm90f32/tilings.h"
#include "tests/kernels/sm90f32/f32_planes.h"

namespace gemmd::testing {

inline constexpr const char* kF32Entry = "sm90/f32_bf16x6";

inline const Kernel& F32Kernel() { return *BuiltinRegistry().Find(kF32Entry); }

// That of a tiling, as Configure() gives it.
inline Config F32Config(int tiling) {
  Config config;
  config.tile_m = sm90f32::kTilings[tiling].columns();
  config.tile_n = sm90f32::kTilings[tiling].rows();
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
