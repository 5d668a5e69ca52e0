// Runs a block-scaled kernel in the emulator, through a launch function so that a changed copy of a
// source can stand in for it, and says what is wrong with D.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/numbers/float_bits.h"
#include "base/numbers/quant/packed_codes.h"
#include "base/numbers/quant/quantize.h"
#include "base/numbers/quant/small_float.h"
#include "kernels/emulator/arithmetic/tensor_core.h"
#include "kernels/emulator/session.h"
#include "kernels/kernel.h"
#include "tests/kernels/emulator/shape.h"

namespace gemmd::testing {

inline constexpr Scaling kMxScaling = {true, DataType::kE8M0, 1, 32, ScaleOrder::kTiles128x4};
inline constexpr Scaling kNvfp4Scaling = {
    true, DataType::kFp8E4M3, 1, 16, ScaleOrder::kTiles128x4, false, true};

struct MxCase {
  Shape shape;
  DataType a = DataType::kFp8E4M3;
  DataType b = DataType::kFp8E4M3;
  // D's lines are `d_padding` elements longer than N, and D starts `d_offset` elements behind an
  // aligned address.
  std::int64_t d_padding = 0;
  std::int64_t d_offset = 0;
  Scaling scaling = kMxScaling;
};

inline MxCase Mxfp4Case(const Shape& shape, std::int64_t d_padding = 0, std::int64_t d_offset = 0) {
  return {shape, DataType::kFp4E2M1, DataType::kFp4E2M1, d_padding, d_offset};
}
inline MxCase Nvfp4Case(const Shape& shape, std::int64_t d_padding = 0, std::int64_t d_offset = 0) {
  MxCase each = Mxfp4Case(shape, d_padding, d_offset);
  each.scaling = kNvfp4Scaling;
  return each;
}

inline std::ostream& operator<<(std::ostream& out, const MxCase& each) {
  return out << each.shape << " " << Name(each.a) << " " << Name(each.b) << " "
             << Name(each.scaling) << " +" << each.d_padding << " @" << each.d_offset;
}

// Random codes, none of them NaN or infinite, and scales near 1; lines padded to 16 bytes, whose
// padding is NaN where there is one.
class MxOperand {
 public:
  MxOperand(DataType type, const Scaling& scaling, std::int64_t lines, std::int64_t k,
            std::uint32_t seed)
      : type_(type),
        scaling_(scaling),
        lines_(lines),
        k_(k),
        stride_((k + LineElements(type) - 1) / LineElements(type) * LineElements(type)) {
    std::mt19937 random(seed);
    codes_.assign(static_cast<std::size_t>(lines * stride_ * SizeBits(type) / 8), 0x7f);
    for (std::int64_t line = 0; line < lines; ++line) {
      for (std::int64_t i = 0; i < k; ++i) {
        StoreCode(codes_.data(), SizeBits(type), line * stride_ + i,
                  RandomCode(static_cast<std::uint8_t>(random())));
      }
    }
    // Places that pad the lines and the blocks stay 0.
    scales_.resize(static_cast<std::size_t>(scaling.count(lines, k)));
    for (std::int64_t line = 0; line < lines; ++line) {
      for (std::int64_t i = 0; i < k; i += scaling.block_k) {
        // Scales of E4M3 lie between 2^-3 and 2^5, with any fraction.
        const auto scale =
            scaling.type == DataType::kE8M0 ? 120 + random() % 15 : 4 * 8 + random() % (8 * 8);
        scales_[static_cast<std::size_t>(scaling.index(lines, k, line, i))] =
            static_cast<std::uint8_t>(scale);
      }
    }
    if (scaling.has_tensor_scale) tensor_scale_ = 0.00123f * static_cast<float>(seed);
  }

  MatrixLayout Layout() const { return {type_, lines_, k_, Order::kRowMajor, stride_}; }
  const void* codes() const { return codes_.data(); }
  const void* scales() const { return scales_.data(); }
  const float* tensor_scale() const { return scaling_.has_tensor_scale ? &tensor_scale_ : nullptr; }
  // 0 behind the end of a line, and behind its last block.
  std::uint32_t code(std::int64_t line, std::int64_t i) const {
    return i < k_ ? LoadCode(codes_.data(), SizeBits(type_), line * stride_ + i) : 0;
  }
  std::uint8_t scale(std::int64_t line, std::int64_t i) const {
    return i / scaling_.block_k * scaling_.block_k < k_
               ? scales_[static_cast<std::size_t>(scaling_.index(lines_, k_, line, i))]
               : 0;
  }
  DataType type() const { return type_; }
  const Scaling& scaling() const { return scaling_; }
  std::int64_t lines() const { return lines_; }
  std::int64_t k() const { return k_; }

  QuantizedView View() const {
    QuantizedView view;
    view.format = {type_, scaling_};
    view.lines = lines_;
    view.k = k_;
    view.codes = codes_.data();
    view.line_stride = stride_;
    view.scales = scales_.data();
    if (scaling_.has_tensor_scale) view.tensor_scale = tensor_scale_;
    return view;
  }

 private:
  static std::int64_t LineElements(DataType type) { return 128 / SizeBits(type); }

  std::uint32_t RandomCode(std::uint8_t bits) const {
    if (type_ == DataType::kFp4E2M1) return bits & 15u;
    const int top = type_ == DataType::kFp8E4M3 ? 0x78 : 0x70;
    return (bits & 0x7f) < top ? bits : bits & 0xbfu;
  }

  DataType type_;
  Scaling scaling_;
  std::int64_t lines_;
  std::int64_t k_;
  std::int64_t stride_;
  std::vector<std::uint8_t> codes_;
  std::vector<std::uint8_t> scales_;
  float tensor_scale_ = 1;
};

struct MxOperands {
  explicit MxOperands(const MxCase& each)
      : test(each),
        a(each.a, each.scaling, each.shape.m, each.shape.k, 1),
        b(each.b, each.scaling, each.shape.n, each.shape.k, 2),
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
    problem.a_scaling = problem.b_scaling = test.scaling;
    return problem;
  }

  Arguments MakeArguments() {
    Arguments arguments;
    arguments.a = a.codes();
    arguments.b = b.codes();
    arguments.a_scales = a.scales();
    arguments.b_scales = b.scales();
    arguments.a_tensor_scale = a.tensor_scale();
    arguments.b_tensor_scale = b.tensor_scale();
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

// ------------------------------------------------------------ 8-bit elements

// A line's blocks of 32 of K, prepared for the rule of tensor_core.h.
inline std::vector<emulator::Factors> Mxfp8Blocks(const MxOperand& operand, std::int64_t line) {
  const auto format = operand.type() == DataType::kFp8E4M3 ? emulator::FactorFormat::kE4m3
                                                           : emulator::FactorFormat::kE5m2;
  std::vector<emulator::Factors> blocks;
  for (std::int64_t first = 0; first < operand.k(); first += 32) {
    emulator::Factors block = {};
    block.count = 32;
    for (int i = 0; i < 32; ++i) block.Set(format, i, operand.code(line, first + i));
    block.Scale(operand.scale(line, first));
    blocks.push_back(block);
  }
  return blocks;
}

inline float MultiplyAddBlock(float sum, const emulator::Factors& a, const emulator::Factors& b) {
  return emulator::RoundToF32(emulator::AlignedSum(sum, a, b));
}

// ------------------------------------------------------------ e2m1

// Sixteen of K: values, and their scale as a significand and an exponent.
struct Fp4Group {
  std::array<double, 16> values;
  double significand;
  int exponent;
};
using Fp4Block = std::array<Fp4Group, 4>;  // 64 of K

// A value as a significand and an exponent that is at least `lowest`; a zero's is a normal f32's
// least one.
inline std::pair<double, int> SplitFloat(double value, int lowest) {
  if (value == 0) return {0, -126};
  const int exponent = std::max(std::ilogb(value), lowest);
  return {std::ldexp(value, -exponent), exponent};
}

inline std::vector<Fp4Block> Fp4Blocks(const MxOperand& operand, std::int64_t line) {
  std::vector<Fp4Block> blocks;
  for (std::int64_t first = 0; first < operand.k(); first += 64) {
    Fp4Block block;
    for (std::int64_t g = 0; g < 4; ++g) {
      const std::int64_t at = first + 16 * g;
      const std::uint8_t code = operand.scale(line, at);
      const auto [significand, exponent] = operand.scaling().type == DataType::kE8M0
                                               ? SplitFloat(DecodeE8M0(code), -127)
                                               : SplitFloat(DecodeFloat(kE4M3, code), -6);
      Fp4Group& group = block[static_cast<std::size_t>(g)];
      group.significand = significand;
      group.exponent = exponent;
      for (std::int64_t i = 0; i < 16; ++i) {
        group.values[static_cast<std::size_t>(i)] = DecodeFloat(kE2M1, operand.code(line, at + i));
      }
    }
    blocks.push_back(block);
  }
  return blocks;
}

// The rule of fp4_block.h for numbers, in other words.
inline float MultiplyAddBlock(float sum, const Fp4Block& a, const Fp4Block& b) {
  std::array<std::pair<double, int>, 5> terms;
  terms[4] = SplitFloat(sum, -126);
  for (std::size_t g = 0; g < 4; ++g) {
    double dot = 0;
    for (std::size_t i = 0; i < 16; ++i) dot += a[g].values[i] * b[g].values[i];
    terms[g] = {dot * a[g].significand * b[g].significand, a[g].exponent + b[g].exponent};
  }
  int largest = terms[0].second;
  for (const auto& [significand, exponent] : terms) largest = std::max(largest, exponent);
  double total = 0;
  for (const auto& [significand, exponent] : terms) {
    total += std::trunc(std::ldexp(significand, 35 + exponent - largest));
  }
  return emulator::RoundToF32(std::ldexp(total, largest - 35));
}

// ------------------------------------------------------------ products

template <typename Blocks>
std::vector<float> MxProductOf(const MxOperand& a, const MxOperand& b,
                               std::vector<Blocks> (*blocks_of)(const MxOperand&, std::int64_t)) {
  std::vector<std::vector<Blocks>> columns;
  for (std::int64_t column = 0; column < b.lines(); ++column) {
    columns.push_back(blocks_of(b, column));
  }
  std::vector<float> product;
  for (std::int64_t row = 0; row < a.lines(); ++row) {
    const std::vector<Blocks> blocks = blocks_of(a, row);
    for (const std::vector<Blocks>& column : columns) {
      float sum = 0;
      for (std::size_t i = 0; i < blocks.size(); ++i) {
        sum = MultiplyAddBlock(sum, blocks[i], column[i]);
      }
      product.push_back(sum);
    }
  }
  return product;
}

// The bits of D: blocks of 32 of K in order, or of 64, then the scales of the tensors.
inline std::vector<float> MxProduct(const MxOperand& a, const MxOperand& b) {
  if (a.type() != DataType::kFp4E2M1) return MxProductOf(a, b, Mxfp8Blocks);
  std::vector<float> product = MxProductOf(a, b, Fp4Blocks);
  if (a.tensor_scale() != nullptr) {
    for (float& sum : product) sum = sum * *a.tensor_scale() * *b.tensor_scale();
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
