// Runs ladder D in the emulator, through a launch function so that a changed copy of a source can
// stand in for it, and says what is wrong with D.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernels/cpu/float_bits.h"
#include "kernels/emulator/session.h"
#include "kernels/emulator/tensor_core.h"
#include "kernels/kernel.h"
#include "kernels/quant/quantize.h"
#include "tests/kernels/emulator/shape.h"

namespace gemmd::testing {

struct MxCase {
  Shape shape;
  DataType a = DataType::kFp8E4M3;
  DataType b = DataType::kFp8E4M3;
  // D's lines are this much longer than N, and start so many elements behind an aligned address.
  std::int64_t d_padding = 0;
  std::int64_t d_offset = 0;
};

inline std::ostream& operator<<(std::ostream& out, const MxCase& each) {
  return out << each.shape << " " << Name(each.a) << " " << Name(each.b) << " +" << each.d_padding
             << " @" << each.d_offset;
}

inline constexpr Scaling kMxScaling = {true, DataType::kE8M0, 1, 32, ScaleOrder::kTiles128x4};

// Random codes, none of them NaN or infinite, and scales near 1; lines padded to 16 bytes, whose
// padding is NaN.
class MxOperand {
 public:
  MxOperand(DataType type, std::int64_t lines, std::int64_t k, std::uint32_t seed)
      : type_(type), lines_(lines), k_(k), stride_((k + 15) / 16 * 16) {
    std::mt19937 random(seed);
    codes_.assign(static_cast<std::size_t>(lines * stride_), 0x7f);
    for (std::int64_t line = 0; line < lines; ++line) {
      for (std::int64_t i = 0; i < k; ++i) {
        const auto bits = static_cast<std::uint8_t>(random());
        const int top = type == DataType::kFp8E4M3 ? 0x78 : 0x70;
        codes_[static_cast<std::size_t>(line * stride_ + i)] =
            (bits & 0x7f) < top ? bits : static_cast<std::uint8_t>(bits & 0xbf);
      }
    }
    // Places of lines and blocks that there are not stay 0.
    scales_.resize(static_cast<std::size_t>(kMxScaling.count(lines, k)));
    for (std::int64_t line = 0; line < lines; ++line) {
      for (std::int64_t i = 0; i < k; i += 32) {
        scales_[static_cast<std::size_t>(kMxScaling.index(lines, k, line, i))] =
            static_cast<std::uint8_t>(120 + random() % 15);
      }
    }
  }

  MatrixLayout Layout() const { return {type_, lines_, k_, Order::kRowMajor, stride_}; }
  const void* codes() const { return codes_.data(); }
  const void* scales() const { return scales_.data(); }
  std::uint8_t code(std::int64_t line, std::int64_t i) const {
    return codes_[static_cast<std::size_t>(line * stride_ + i)];
  }
  std::uint8_t scale(std::int64_t line, std::int64_t i) const {
    return scales_[static_cast<std::size_t>(kMxScaling.index(lines_, k_, line, i))];
  }
  DataType type() const { return type_; }
  std::int64_t lines() const { return lines_; }
  std::int64_t k() const { return k_; }

  QuantizedView View() const {
    QuantizedView view;
    view.format = {type_, kMxScaling};
    view.lines = lines_;
    view.k = k_;
    view.codes = codes_.data();
    view.line_stride = stride_;
    view.scales = scales_.data();
    return view;
  }

 private:
  DataType type_;
  std::int64_t lines_;
  std::int64_t k_;
  std::int64_t stride_;
  std::vector<std::uint8_t> codes_;
  std::vector<std::uint8_t> scales_;
};

struct MxOperands {
  explicit MxOperands(const MxCase& each)
      : test(each),
        a(each.a, each.shape.m, each.shape.k, 1),
        b(each.b, each.shape.n, each.shape.k, 2),
        ldd(each.shape.n + each.d_padding),
        memory(static_cast<std::size_t>(each.shape.m * ldd + each.d_offset) + 16, kPoison) {
    const auto at = reinterpret_cast<std::uintptr_t>(memory.data());
    const std::uintptr_t to_aligned = (32 - at % 32) % 32;
    d = memory.data() + static_cast<std::int64_t>(to_aligned / 4) + each.d_offset;
  }

  Problem MakeProblem() const {
    Problem problem = gemmd::MakeProblem(test.shape.m, test.shape.n, test.shape.k, test.a,
                                         DataType::kF32, false, true);
    problem.a = a.Layout();
    problem.b = b.Layout();
    problem.d.leading_dimension = ldd;
    problem.accumulate = DataType::kF32;
    problem.a_scaling = problem.b_scaling = kMxScaling;
    return problem;
  }

  Arguments MakeArguments() {
    Arguments arguments;
    arguments.a = a.codes();
    arguments.b = b.codes();
    arguments.a_scales = a.scales();
    arguments.b_scales = b.scales();
    arguments.d = d;
    return arguments;
  }

  float At(std::int64_t row, std::int64_t column) const { return d[row * ldd + column]; }

  static constexpr float kPoison = -12345.5f;
  MxCase test;
  MxOperand a;
  MxOperand b;
  std::int64_t ldd;
  std::vector<float> memory;
  float* d;
};

// The bits of D by the rule of emulator/tensor_core.h: blocks of 32 of K in order.
inline std::vector<float> MxProduct(const MxOperand& a, const MxOperand& b) {
  const auto prepare = [](const MxOperand& operand) {
    const auto format = operand.type() == DataType::kFp8E4M3 ? emulator::FactorFormat::kE4m3
                                                             : emulator::FactorFormat::kE5m2;
    std::vector<emulator::Factors> factors;
    for (std::int64_t line = 0; line < operand.lines(); ++line) {
      for (std::int64_t first = 0; first < operand.k(); first += 32) {
        emulator::Factors block = {};
        block.count = 32;
        for (int i = 0; i < 32; ++i) {
          const std::int64_t k = first + i;
          block.Set(format, i, k < operand.k() ? operand.code(line, k) : 0);
        }
        block.Scale(operand.scale(line, first));
        factors.push_back(block);
      }
    }
    return factors;
  };
  const std::vector<emulator::Factors> rows = prepare(a);
  const std::vector<emulator::Factors> columns = prepare(b);
  const std::int64_t blocks = (a.k() + 31) / 32;
  std::vector<float> product;
  for (std::int64_t row = 0; row < a.lines(); ++row) {
    for (std::int64_t column = 0; column < b.lines(); ++column) {
      float sum = 0;
      for (std::int64_t i = 0; i < blocks; ++i) {
        sum = emulator::RoundToF32(
            emulator::AlignedSum(sum, rows[static_cast<std::size_t>(row * blocks + i)],
                                 columns[static_cast<std::size_t>(column * blocks + i)]));
      }
      product.push_back(sum);
    }
  }
  return product;
}

// Says what is wrong with D: bits that are not those expected, writes beyond a row; else nothing.
inline std::string FindWrong(const MxOperands& operands, const std::vector<float>& expected) {
  const Shape& shape = operands.test.shape;
  for (std::int64_t row = 0; row < shape.m; ++row) {
    for (std::int64_t column = 0; column < operands.ldd; ++column) {
      const float value = operands.At(row, column);
      const std::string where = " at " + std::to_string(row) + ", " + std::to_string(column);
      if (column >= shape.n) {
        if (value != MxOperands::kPoison) return "padding was written" + where;
        continue;
      }
      const float right = expected[static_cast<std::size_t>(row * shape.n + column)];
      if (BitsOf(value) != BitsOf(right)) return "wrong bits" + where;
    }
  }
  return "";
}

// The report's message, what is wrong, or nothing where D is right. `expected` are its bits; empty,
// they are computed.
using MxLaunch = absl::Status(const Problem&, const Arguments&, const LaunchTarget&);
inline std::string RunMx(MxLaunch* launch, const MxCase& each, const emulator::Options& options,
                         const std::vector<float>& expected = {}) {
  MxOperands operands(each);
  emulator::Session session;
  session.options = options;
  LaunchTarget target;
  target.emulator = &session;
  const absl::Status status = launch(operands.MakeProblem(), operands.MakeArguments(), target);
  if (!session.report.ok()) return session.report.message;
  if (!status.ok()) return status.ToString();
  return FindWrong(operands, expected.empty() ? MxProduct(operands.a, operands.b) : expected);
}

}  // namespace gemmd::testing
