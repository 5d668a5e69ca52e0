// Launches products by quantized weights in the emulator without the registry, so that changed
// copies of sources can stand in for them. Included after launch.h.
#pragma once

#include <string>

#include "tests/kernels/emulator/shape.h"
#include "tests/kernels/hopper/quant/quant_planes.h"

namespace gemmd::testing {

// The report's message, "wrong bits", or nothing where D is right.
template <class LaunchFunction>
std::string RunLaunch(const Shape& shape, const emulator::Options& options,
                      const LaunchFunction& launch, DataType of_b = DataType::kInt4,
                      bool is_nvfp4 = false) {
  QuantCase its = {shape.m, shape.n, shape.k};
  its.b = of_b;
  its.is_nvfp4 = is_nvfp4;
  its.has_any_scale = true;
  its.has_nan = true;
  if (of_b == DataType::kInt8) {
    its.scales_of = ScalesOf::kLines;
    its.has_zero_points = true;
  }
  its.d = DataType::kF32;  // so that no bit of a sum is rounded away
  its.b_is_settled = options.seed % 2 == 1;
  QuantRun run(its);
  const emulator::Report report = QuantRun::RunIn(
      [&](const LaunchTarget& target) { return launch(run.problem, run.MakeArguments(), target); },
      options);
  if (!report.message.empty()) return report.message;
  return run.CountWrong() == 0 ? "" : "wrong bits";
}

template <int kTiling>
std::string RunFew(const Shape& shape, const emulator::Options& options) {
  namespace quant = hopper::quant;
  return RunLaunch(
      shape, options,
      quant::LaunchFewOf<kTiling, quant::Int4Decoder<quant::Bf16Rows, quant::ZeroKind::kEight>>);
}

template <int kTiling>
std::string RunWide(const Shape& shape, const emulator::Options& options) {
  namespace quant = hopper::quant;
  return RunLaunch(
      shape, options,
      quant::LaunchWideOf<kTiling, quant::Int4Decoder<quant::Bf16Rows, quant::ZeroKind::kEight>>);
}

template <int kTiling>
std::string RunChain(const Shape& shape, const emulator::Options& options) {
  namespace quant = hopper::quant;
  return RunLaunch(shape, options, quant::LaunchFewOf<kTiling, quant::Mxfp4Decoder>,
                   DataType::kFp4E2M1);
}

template <int kTiling>
std::string RunNvfp4(const Shape& shape, const emulator::Options& options) {
  namespace quant = hopper::quant;
  return RunLaunch(shape, options, quant::LaunchFewOf<kTiling, quant::Nvfp4Decoder>,
                   DataType::kFp4E2M1, true);
}

template <int kTiling>
std::string RunWideNvfp4(const Shape& shape, const emulator::Options& options) {
  namespace quant = hopper::quant;
  return RunLaunch(shape, options, quant::LaunchWideOf<kTiling, quant::Nvfp4Decoder>,
                   DataType::kFp4E2M1, true);
}

// By fp8 with NaN in some lines, and by int8 with one scale and one zero point for a line.
template <int kTiling>
std::string RunFewBytes(const Shape& shape, const emulator::Options& options) {
  return RunLaunch(shape, options, hopper::quant::LaunchFewBytes<kTiling>, DataType::kFp8E4M3);
}

template <int kTiling>
std::string RunWideBytes(const Shape& shape, const emulator::Options& options) {
  return RunLaunch(shape, options, hopper::quant::LaunchWideBytes<kTiling>, DataType::kFp8E4M3);
}

template <int kTiling>
std::string RunFewLines(const Shape& shape, const emulator::Options& options) {
  return RunLaunch(shape, options, hopper::quant::LaunchFewBytes<kTiling>, DataType::kInt8);
}

template <int kTiling>
std::string RunWideLines(const Shape& shape, const emulator::Options& options) {
  return RunLaunch(shape, options, hopper::quant::LaunchWideBytes<kTiling>, DataType::kInt8);
}

template <int kTiling>
std::string RunWideChain(const Shape& shape, const emulator::Options& options) {
  namespace quant = hopper::quant;
  return RunLaunch(shape, options, quant::LaunchWideOf<kTiling, quant::Mxfp4Decoder>,
                   DataType::kFp4E2M1);
}

}  // namespace gemmd::testing
