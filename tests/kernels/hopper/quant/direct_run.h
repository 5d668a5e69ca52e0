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
                      const LaunchFunction& launch,
                      hopper::quant::CodeFormat format = hopper::quant::CodeFormat::kInt4) {
  QuantCase its = CaseOf(format, shape.m, shape.n, shape.k);
  its.has_any_scale = true;
  its.has_nan = true;
  if (format == hopper::quant::CodeFormat::kInt8) its.scales_of = ScalesOf::kLines;
  its.has_zero_points = its.b == DataType::kInt8;
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
      quant::LaunchFewOf<kTiling, quant::Int4Decoder<quant::Bf16Rows, quant::ZeroKind::kMiddle>>);
}

template <int kTiling>
std::string RunWide(const Shape& shape, const emulator::Options& options) {
  namespace quant = hopper::quant;
  return RunLaunch(
      shape, options,
      quant::LaunchWideOf<kTiling, quant::Int4Decoder<quant::Bf16Rows, quant::ZeroKind::kMiddle>>);
}

// By fp8 with NaN in some lines; by int8 with one scale and one zero point for a line, or, in
// groups of 32 and 64, with some for each.
template <int kTiling, hopper::quant::CodeFormat kFormat>
std::string RunFewOf(const Shape& shape, const emulator::Options& options) {
  return RunLaunch(shape, options, hopper::quant::LaunchFew<kTiling, kFormat>, kFormat);
}
template <int kTiling, hopper::quant::CodeFormat kFormat>
std::string RunWideOf(const Shape& shape, const emulator::Options& options) {
  return RunLaunch(shape, options, hopper::quant::LaunchWide<kTiling, kFormat>, kFormat);
}

template <int kTiling>
constexpr auto* RunChain = &RunFewOf<kTiling, hopper::quant::CodeFormat::kMxfp4>;
template <int kTiling>
constexpr auto* RunWideChain = &RunWideOf<kTiling, hopper::quant::CodeFormat::kMxfp4>;
template <int kTiling>
constexpr auto* RunNvfp4 = &RunFewOf<kTiling, hopper::quant::CodeFormat::kNvfp4>;
template <int kTiling>
constexpr auto* RunWideNvfp4 = &RunWideOf<kTiling, hopper::quant::CodeFormat::kNvfp4>;
template <int kTiling>
constexpr auto* RunFewBytes = &RunFewOf<kTiling, hopper::quant::CodeFormat::kE4m3>;
template <int kTiling>
constexpr auto* RunWideBytes = &RunWideOf<kTiling, hopper::quant::CodeFormat::kE4m3>;
template <int kTiling>
constexpr auto* RunFewLines = &RunFewOf<kTiling, hopper::quant::CodeFormat::kInt8>;
template <int kTiling>
constexpr auto* RunWideLines = &RunWideOf<kTiling, hopper::quant::CodeFormat::kInt8>;
template <int kTiling>
constexpr auto* RunFewParts = &RunFewOf<kTiling, hopper::quant::CodeFormat::kInt8G32>;
template <int kTiling>
constexpr auto* RunWideParts = &RunWideOf<kTiling, hopper::quant::CodeFormat::kInt8G32>;

template <int kTiling>
constexpr auto* RunFewOffsets = &RunFewOf<kTiling, hopper::quant::CodeFormat::kUint4G32Offset>;
template <int kTiling>
constexpr auto* RunWideOffsets = &RunWideOf<kTiling, hopper::quant::CodeFormat::kUint4G32Offset>;

template <int kTiling>
constexpr auto* RunFewTable = &RunFewOf<kTiling, hopper::quant::CodeFormat::kTableG64Float>;
template <int kTiling>
constexpr auto* RunWideTable = &RunWideOf<kTiling, hopper::quant::CodeFormat::kTableG64Float>;
template <int kTiling>
constexpr auto* RunWideOneTerm = &RunWideOf<kTiling, hopper::quant::CodeFormat::kIq4NlG32>;

template <int kTiling>
constexpr auto* RunFewE5m2 = &RunFewOf<kTiling, hopper::quant::CodeFormat::kE5m2>;
template <int kTiling>
constexpr auto* RunWideE5m2 = &RunWideOf<kTiling, hopper::quant::CodeFormat::kE5m2>;
template <int kTiling>
constexpr auto* RunFewMx = &RunFewOf<kTiling, hopper::quant::CodeFormat::kMxE4m3>;
template <int kTiling>
constexpr auto* RunFewSixBits = &RunFewOf<kTiling, hopper::quant::CodeFormat::kMxE3m2>;

}  // namespace gemmd::testing
