// Launches a product of 8-bit operands in the emulator without the registry, so that changed copies
// of sources can stand in for them. Included after launch.h.
#pragma once

#include <string>

#include "tests/kernels/emulator/shape.h"
#include "tests/kernels/hopper/bytes/byte_planes.h"

namespace gemmd::testing {

// The report's message, "wrong bits", or nothing where D is right.
template <class Launch>
std::string RunBytes(Launch* launch, const ByteCase& c, const emulator::Options& options) {
  ByteRun run(c);
  run.settles = options.seed == 2;
  Config config;
  config.raster_group = 2;
  const emulator::Report report = run.LaunchBy(
      [&](const Arguments& arguments, const LaunchTarget& target) {
        return launch(run.problem, config, arguments, target);
      },
      options);
  if (!report.message.empty()) return report.message;
  return run.CountWrong() == 0 ? "" : "wrong bits";
}

// D of int32.
template <int kTiling>
std::string RunIntegers(const Shape& shape, const emulator::Options& options) {
  return RunBytes(hopper::bytes::LaunchInt8<kTiling>, {shape.m, shape.n, shape.k}, options);
}

// D of bf16, by scales of 1x128 in both operands.
template <int kTiling>
std::string RunFloats(const Shape& shape, const emulator::Options& options) {
  constexpr Scaling kBlocks = {true, DataType::kF32, 1, 128, ScaleOrder::kAlongLines};
  return RunBytes(hopper::bytes::LaunchFp8<kTiling>,
                  {shape.m, shape.n, shape.k, DataType::kFp8E4M3, DataType::kFp8E5M2,
                   DataType::kBf16, kBlocks, kBlocks},
                  options);
}

}  // namespace gemmd::testing
