// Launches the f64 product in the emulator without the registry, so that changed copies of sources
// can stand in for them. Included after launch.h.
#pragma once

#include <string>

#include "tests/kernels/emulator/shape.h"
#include "tests/kernels/hopper/common/place_of.h"
#include "tests/kernels/hopper/f64/f64_planes.h"

namespace gemmd::testing {

// The properties of a run that its shape does not have.
struct DirectRun {
  bool has_units = true;
  bool a_is_settled = false;
  bool b_is_settled = false;
};

// The report's message, "wrong bits", or nothing where D is right.
template <int kTiling, ptx::Major kRowMajor, ptx::Major kColumnMajor>
std::string RunDirect(const Shape& shape, const DirectRun& direct,
                      const emulator::Options& options) {
  F64Case c = {shape.m, shape.n, shape.k, kColumnMajor == ptx::Major::kMn,
               kRowMajor == ptx::Major::kK};
  c.has_units = direct.has_units;
  F64Run run(c);
  run.a_is_settled = direct.a_is_settled;
  run.b_is_settled = direct.b_is_settled;
  Config config;
  config.raster_group = 2;
  const emulator::Report report = run.LaunchBy(
      [&](const Arguments& arguments, const LaunchTarget& target) {
        return hopper::f64::LaunchTiling<kTiling, kRowMajor, kColumnMajor>(run.problem, config,
                                                                           arguments, target);
      },
      options);
  if (!report.message.empty()) return report.message;
  return run.CountWrong() == 0 ? "" : "wrong bits";
}

}  // namespace gemmd::testing
