// Launches the Hopper GEMM on tf32 operands in the emulator without the registry, so that changed
// copies of sources can stand in for them. Included after tf32_launch.h.
#pragma once

#include <string>

#include "tests/kernels/emulator/shape.h"
#include "tests/kernels/hopper/half/tf32_planes.h"

namespace gemmd::testing {

// The report's message, "wrong bits", or nothing where D is right.
template <int kTiling>
std::string RunTf32Direct(const Shape& shape, const emulator::Options& options) {
  Tf32Planes planes({shape.m, shape.n, shape.k});
  Config config;
  config.raster_group = 2;
  const emulator::Report report = planes.LaunchBy(
      [&](const Arguments& arguments, const LaunchTarget& target) {
        return hopper::half::LaunchTf32Tiling<kTiling>(planes.problem, config,
                                                       absl::MakeConstSpan(&arguments, 1), target);
      },
      1, options);
  if (!report.message.empty()) return report.message;
  return planes.CountWrong() == 0 ? "" : "wrong bits";
}

}  // namespace gemmd::testing
