// A problem of the f32 product in three f16 products, and what bits D should have.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/emulator/arithmetic/tensor_core.h"
#include "tests/kernels/hopper/common/f32_planes.h"

namespace gemmd::testing {

// A row of A or a column of B as wgmma's factors: by blocks of 64 of K, parts and steps of 16.
struct HalfBlock {
  emulator::Factors factors[2][4];
};
struct HalfLineModel {
  int shift = 127;  // elements times 2^shift are parts
  std::vector<HalfBlock> blocks;
};

inline HalfLineModel MakeHalfLine(const std::vector<float>& line) {
  HalfLineModel model;
  float largest = 0;
  for (const float x : line) largest = std::max(largest, std::fabs(x));
  if (largest > 0) model.shift = std::min(127, 14 - std::ilogb(largest));
  model.blocks.resize((line.size() + 63) / 64);
  for (std::size_t i = 0; i < model.blocks.size() * 64; ++i) {
    float x = i < line.size() ? std::ldexp(line[i], model.shift) : 0;
    for (int part = 0; part < 2; ++part) {
      const std::uint16_t bits = emulator::Narrow(emulator::HalfFormat::kF16, x);
      model.blocks[i / 64].factors[part][i / 16 % 4].Set(emulator::HalfFormat::kF16,
                                                         static_cast<int>(i % 16), bits);
      x -= emulator::Widen(emulator::HalfFormat::kF16, bits);
    }
  }
  return model;
}

// An element of D, by the numerics that docs/numerics.md states.
inline float HalfElement(const HalfLineModel& a, const HalfLineModel& b) {
  constexpr int kTerms[3][2] = {{1, 0}, {0, 1}, {0, 0}};  // of A and B
  float sum = 0;
  float rest = 0;
  for (std::size_t block = 0; block < a.blocks.size(); ++block) {
    for (const auto& term : kTerms) {
      for (int step = 0; step < 4; ++step) {
        rest = emulator::RoundToF32(emulator::AlignedSum(
            rest, a.blocks[block].factors[term[0]][step], b.blocks[block].factors[term[1]][step]));
      }
    }
    const float total = sum + rest;
    rest -= total - sum;
    sum = total;
  }
  return static_cast<float>(std::ldexp(static_cast<double>(sum + rest), -a.shift - b.shift));
}

// Its lines have many magnitudes, each its own.
struct F16x3Run : F32Run {
  explicit F16x3Run(const F32Case& c) : F32Run(c) {
    for (std::int64_t i = 0; i < c.k; ++i) {
      for (std::int64_t row = 0; row < c.m; ++row) SetA(row, i, std::ldexp(A(row, i), Place(row)));
      for (std::int64_t n = 0; n < c.n; ++n) SetB(i, n, std::ldexp(B(i, n), Place(n + 11)));
    }
  }
  static int Place(std::int64_t line) { return static_cast<int>(line * 37 % 101) - 50; }

  HalfLineModel HalvesOfA(std::int64_t row) const {
    std::vector<float> line;
    line.reserve(static_cast<std::size_t>(problem.k));
    for (std::int64_t i = 0; i < problem.k; ++i) line.push_back(A(row, i));
    return MakeHalfLine(line);
  }
  HalfLineModel HalvesOfB(std::int64_t column) const {
    std::vector<float> line;
    line.reserve(static_cast<std::size_t>(problem.k));
    for (std::int64_t i = 0; i < problem.k; ++i) line.push_back(B(i, column));
    return MakeHalfLine(line);
  }

  // Elements of D whose bits are not the model's, without an epilogue.
  std::int64_t CountWrongHalves() const {
    std::vector<HalfLineModel> columns;
    columns.reserve(static_cast<std::size_t>(problem.n));
    for (std::int64_t column = 0; column < problem.n; ++column) {
      columns.push_back(HalvesOfB(column));
    }
    std::int64_t wrong = 0;
    for (std::int64_t row = 0; row < problem.m; ++row) {
      const HalfLineModel line = HalvesOfA(row);
      for (std::int64_t column = 0; column < problem.n; ++column) {
        wrong += BitsAt(row, column) !=
                 Bits(HalfElement(line, columns[static_cast<std::size_t>(column)]));
      }
    }
    return wrong;
  }
};

}  // namespace gemmd::testing
