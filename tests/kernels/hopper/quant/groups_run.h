// Launches groups of rows in the emulator without the registry, so that changed copies of sources
// can stand in for them. Included after groups_launch.h.
#pragma once

#include <cmath>
#include <string>

#include "tests/kernels/emulator/shape.h"
#include "tests/kernels/hopper/quant/quant_planes.h"

namespace gemmd::testing {

// Two groups of shape.m rows together, by int4 of shape.n lines each, in a tiling of groups.h.
// Returns the report's message, "wrong bits", or nothing where D is right.
template <int kTiling>
std::string RunGroups(const Shape& shape, const emulator::Options& options) {
  namespace quant = hopper::quant;
  QuantCase its = {shape.m, 2 * shape.n, shape.k};
  its.d = DataType::kF32;  // so that no bit of a sum is rounded away
  its.epilogue.has_bias = true;
  QuantRun run(its);
  // The matrices are one behind another, and D is as wide as one.
  Problem problem = run.problem;
  problem.n = problem.b.columns = problem.c.columns = problem.d.columns = shape.n;
  const std::int64_t first = shape.m / 2;
  const quant::PackedGroup of_rows[] = {{0, first, 0}, {first, shape.m, 1}};
  const quant::PackedGroups groups = {of_rows, 1, shape.n * 4};
  const emulator::Report report = QuantRun::RunIn(
      [&](const LaunchTarget& target) {
        return quant::LaunchGroupsOf<kTiling, quant::CodeFormat::kInt4>(
            problem, groups, run.MakeArguments(), target);
      },
      options);
  if (!report.message.empty()) return report.message;
  for (std::int64_t row = 0; row < shape.m; ++row) {
    const QuantRun::Line a = run.RowsOfA(row).front();
    for (std::int64_t column = 0; column < shape.n; ++column) {
      const std::int64_t line = (row < first ? 0 : shape.n) + column;
      const float sum = run.SumOf(a, run.LineOfW(line), line);
      if (run.BitsAt(row, column) != run.ExpectedBits(sum, row, line)) return "wrong bits";
    }
  }
  return "";
}

}  // namespace gemmd::testing
