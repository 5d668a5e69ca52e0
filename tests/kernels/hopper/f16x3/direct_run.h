// Launches the f32 product in three f16 products in the emulator without the registry, so that
// changed copies of sources can stand in for them. Included after launch.h.
#pragma once

#include <string>

#include "tests/kernels/emulator/shape.h"
#include "tests/kernels/hopper/common/place_of.h"
#include "tests/kernels/hopper/f16x3/f16x3_planes.h"

namespace gemmd::testing {

// The report's message, "wrong bits", or nothing where D is right. B's lines lie along K or,
// with kIsTransposed, across it.
template <int kTiling, bool kIsTransposed>
std::string RunF16x3(const Shape& shape, const emulator::Options& options) {
  F16x3Run run({shape.m, shape.n, shape.k, false, !kIsTransposed});
  Config config;
  config.raster_group = 2;
  const emulator::Report report = run.LaunchBy(
      [&](const Arguments& arguments, const LaunchTarget& target) {
        return hopper::f16x3::LaunchProduct<kTiling>(run.problem, config, arguments, target);
      },
      hopper::f16x3::WorkspaceOf(hopper::f16x3::kTilings[kTiling], run.problem).bytes(), options);
  if (!report.message.empty()) return report.message;
  return run.CountWrongHalves() == 0 ? "" : "wrong bits";
}

}  // namespace gemmd::testing
