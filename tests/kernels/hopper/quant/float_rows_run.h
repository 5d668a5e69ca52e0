// The passes ahead of a product of rows of f32 and behind it in the emulator, with sums of a hash
// for its own. Included after float_rows_launch.h.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "tests/kernels/emulator/shape.h"
#include "tests/kernels/hopper/quant/quant_planes.h"

namespace gemmd::testing {

inline bool HasPartsOfA(const QuantRun& run) {
  const std::int64_t k = run.its.k;
  for (std::int64_t row = 0; row < run.its.m; ++row) {
    for (std::int64_t i = 0; i < k; ++i) {
      for (int part = 0; part < 3; ++part) {
        std::uint16_t bits;
        std::memcpy(&bits, run.workspace.data() + ((row * 3 + part) * k + i) * 2, sizeof bits);
        if (bits != run.PartOfA(row, i, part)) return false;
      }
    }
  }
  return true;
}

inline float SumOfPart(std::int64_t row, std::int64_t column, int part) {
  const float sum = static_cast<float>(HashOf(7, row * 3 + part, column) >> 8) / 16777216.0F - 0.5F;
  return std::ldexp(sum, -8 * part);
}

inline bool HasSumsInD(const QuantRun& run) {
  for (std::int64_t row = 0; row < run.its.m; ++row) {
    for (std::int64_t column = 0; column < run.its.n; ++column) {
      const float sum =
          (SumOfPart(row, column, 2) + SumOfPart(row, column, 1)) + SumOfPart(row, column, 0);
      if (run.BitsAt(row, column) != run.ExpectedBits(sum, row, column)) return false;
    }
  }
  return run.d_plane.IsPaddingUntouched();
}

// The report's message, what was wrong, or nothing.
inline std::string RunFloatRowsOf(const QuantCase& its, const emulator::Options& options) {
  namespace quant = hopper::quant;
  QuantRun run(its);
  const auto launched = [&](auto* launch) {
    return QuantRun::RunIn(
               [&](const LaunchTarget& target) {
                 return launch(run.problem, run.MakeArguments(), target);
               },
               options)
        .message;
  };
  std::string message = launched(&quant::LaunchSplitRows);
  if (!message.empty()) return message;
  if (!HasPartsOfA(run)) return "wrong parts";
  const Problem parts = quant::ProductOfParts(run.problem);
  std::uint8_t* const sums = run.workspace.data() + quant::PlacesOfParts(parts).sums;
  for (std::int64_t row = 0; row < parts.m; ++row) {
    for (std::int64_t column = 0; column < parts.n; ++column) {
      const float sum = SumOfPart(row / 3, column, static_cast<int>(row % 3));
      std::memcpy(sums + (row * parts.d.row_stride() + column * parts.d.column_stride()) * 4, &sum,
                  sizeof sum);
    }
  }
  message = launched(&quant::LaunchAddRows);
  if (!message.empty()) return message;
  return HasSumsInD(run) ? "" : "wrong sums";
}

// D in both orders.
inline std::string RunFloatRows(const Shape& shape, const emulator::Options& options) {
  QuantCase its = {shape.m, shape.n, shape.k};
  its.a = DataType::kF32;
  its.d = DataType::kF32;
  its.has_odd_rows = true;
  its.epilogue.beta = -1.5;
  for (const Order order : {Order::kRowMajor, Order::kColumnMajor}) {
    its.d_order = order;
    std::string message = RunFloatRowsOf(its, options);
    if (!message.empty()) return message;
  }
  return "";
}

}  // namespace gemmd::testing
