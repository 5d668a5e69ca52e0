// A problem of the Hopper GEMM on tf32 operands, and what bits D should have.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/emulator/arithmetic/tensor_core.h"
#include "tests/kernels/hopper/common/f32_planes.h"

namespace gemmd::testing {

// Operands have neighbours along K, lines start at multiples of 16 bytes.
inline Problem MakeTf32Problem(const F32Case& c) {
  Problem problem = MakeF32Problem(c);
  problem.a.type = DataType::kTf32;
  problem.b.type = DataType::kTf32;
  for (MatrixLayout* layout : {&problem.a, &problem.b, &problem.c, &problem.d}) {
    layout->leading_dimension = (layout->inner() + 3) / 4 * 4 + 4;
  }
  return problem;
}

struct Tf32Planes : F32Run {
  explicit Tf32Planes(const F32Case& c) : F32Run(c, MakeTf32Problem(c)) {}

  // Elements of D whose bits are not those of 8 products an instruction in order of K, without an
  // epilogue.
  std::int64_t CountWrong(std::uint32_t (*round)(std::uint32_t) = emulator::RoundToTf32) const {
    using Line = std::vector<emulator::Factors>;
    const auto line = [&](bool is_row, std::int64_t index) {
      Line factors(static_cast<std::size_t>((problem.k + 7) / 8));
      for (std::int64_t i = 0; i < static_cast<std::int64_t>(factors.size()) * 8; ++i) {
        const float x = i >= problem.k ? 0 : is_row ? A(index, i) : B(i, index);
        emulator::Factors& block = factors[static_cast<std::size_t>(i / 8)];
        block.count = 8;
        block.Set(emulator::FactorFormat::kTf32, static_cast<int>(i % 8), round(Bits(x)));
      }
      return factors;
    };
    std::vector<Line> columns;
    for (std::int64_t column = 0; column < problem.n; ++column) {
      columns.push_back(line(false, column));
    }
    std::int64_t wrong = 0;
    for (std::int64_t row = 0; row < problem.m; ++row) {
      const Line factors = line(true, row);
      for (std::int64_t column = 0; column < problem.n; ++column) {
        float sum = 0;
        for (std::size_t i = 0; i < factors.size(); ++i) {
          sum = emulator::RoundToF32(
              emulator::AlignedSum(sum, factors[i], columns[static_cast<std::size_t>(column)][i]));
        }
        wrong += BitsAt(row, column) != Bits(sum);
      }
    }
    return wrong;
  }
};

}  // namespace gemmd::testing
