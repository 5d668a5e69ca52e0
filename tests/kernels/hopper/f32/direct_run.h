// Launches the f32 product in the emulator without the registry, so that changed copies of sources
// can stand in for them. Included after launch.h.
#pragma once

#include <string>

#include "tests/kernels/emulator/shape.h"
#include "tests/kernels/hopper/common/f32_planes.h"
#include "tests/kernels/hopper/common/place_of.h"

namespace gemmd::testing {

// The report's message, "wrong bits", or nothing where D is right.
template <int kTiling, ptx::Major kRowMajor>
std::string RunDirect(const Shape& shape, const emulator::Options& options) {
  F32Run run({shape.m, shape.n, shape.k, false, kRowMajor == ptx::Major::kK});
  Config config;
  config.raster_group = 2;
  const emulator::Report report = run.LaunchBy(
      [&](const Arguments& arguments, const LaunchTarget& target) {
        return hopper::f32::LaunchTiling<kTiling, kRowMajor>(run.problem, config, arguments,
                                                             target);
      },
      hopper::f32::PartBytes(hopper::f32::kTilings[kTiling], run.problem), options);
  if (!report.message.empty()) return report.message;
  return run.CountWrong() == 0 ? "" : "wrong bits";
}

}  // namespace gemmd::testing
