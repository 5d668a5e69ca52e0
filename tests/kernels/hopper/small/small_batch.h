// A batch of small products of any type with its planes in arenas, which may be copied to a GPU.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/kernel.h"
#include "tests/kernels/hopper/half/hopper_batch.h"

namespace gemmd::testing {

struct SmallCase {
  DataType type = DataType::kF32;
  std::int64_t m = 1;
  std::int64_t n = 1;
  std::int64_t k = 1;
  bool transpose_a = false;
  bool transpose_b = false;
  Order d_order = Order::kRowMajor;
  DataType d_type = DataType::kF32;  // of 16-bit operands
  Epilogue epilogue = {};
  // Elements between lines, on top of those that fill up units of 16 bytes.
  int gap = 0;
};

inline Problem MakeSmallProblem(const SmallCase& c) {
  const bool is_half = SizeBits(c.type) == 16;
  Problem problem =
      MakeProblem(c.m, c.n, c.k, c.type, is_half ? c.d_type : c.type, c.transpose_a, c.transpose_b);
  problem.accumulate = DefaultAccumulateType(c.type);
  problem.epilogue = c.epilogue;
  problem.d.order = c.d_order;
  problem.c = problem.d;
  const std::int64_t unit = 128 / SizeBits(c.type);
  for (MatrixLayout* layout : {&problem.a, &problem.b, &problem.c, &problem.d}) {
    layout->leading_dimension = (layout->inner() + unit - 1) / unit * unit + c.gap;
  }
  return problem;
}

struct SmallBatch : BatchArenas {
  SmallBatch(const SmallCase& c, int problems, Spacing spacing)
      : BatchArenas(MakeSmallProblem(c), problems, spacing), problem(MakeSmallProblem(c)) {
    std::mt19937_64 random(11);
    Fill(&a, problem.a, &random);
    Fill(&b, problem.b, &random);
    Fill(&c_plane, problem.c, &random);
    Fill(&bias, {problem.d.type, 1, c.n, Order::kRowMajor, c.n}, &random);
  }

  static void Put(DataType type, double value, unsigned char* to) {
    if (type == DataType::kF64) {
      std::memcpy(to, &value, 8);
    } else if (type == DataType::kF32) {
      const auto narrow = static_cast<float>(value);
      std::memcpy(to, &narrow, 4);
    } else {
      const std::uint16_t half =
          emulator::Narrow(FormatOf(FormOf(type)), static_cast<float>(value));
      std::memcpy(to, &half, 2);
    }
  }

  // Numbers of both signs and several magnitudes, at each element; the bytes between lines stay.
  static void Fill(Arena* arena, const MatrixLayout& layout, std::mt19937_64* random) {
    std::normal_distribution<double> normal;
    const std::int64_t size = SizeBits(layout.type) / 8;
    for (const std::uint64_t offset : arena->offsets) {
      for (std::int64_t line = 0; line < layout.outer(); ++line) {
        for (std::int64_t i = 0; i < layout.inner(); ++i) {
          Put(layout.type, normal(*random),
              arena->data() + offset + (line * layout.leading_dimension + i) * size);
        }
      }
    }
  }

  Problem problem;
};

// A kernel that takes the problem by default, whose bits a batch has; null where there is none.
inline const Kernel* FamilyOf(const Problem& problem) {
  std::vector<const char*> names(std::begin(kHopperEntries), std::end(kHopperEntries));
  if (problem.a.type == DataType::kF64) names = {"sm90/f64"};
  if (problem.a.type == DataType::kF32) names = {"sm90/f32_bf16x6"};
  for (const char* name : names) {
    const Kernel* const kernel = BuiltinRegistry().Find(name);
    if (kernel->Rejection(problem).empty()) return kernel;
  }
  return nullptr;
}

// Every way to read operands and to write D, at a tile's edges and beyond, for a batch of each
// form.
inline std::vector<SmallCase> SmallCases(DataType type) {
  std::vector<SmallCase> cases;
  const bool is_half = SizeBits(type) == 16;
  for (const auto& [m, n, k] : std::vector<std::array<std::int64_t, 3>>{
           {16, 16, 16}, {5, 12, 40}, {32, 32, 32}, {20, 27, 72}, {1, 64, 8}, {50, 40, 100}}) {
    for (int which = 0; which < 4; ++which) {
      SmallCase c;
      c.type = type;
      c.d_type = type;
      c.m = m;
      c.n = n;
      c.k = k;
      c.transpose_a = (which & 1) != 0;
      c.transpose_b = (which & 2) != 0;
      cases.push_back(c);
    }
    SmallCase c = cases.back();
    c.epilogue = {0.5, -1.5, true, Activation::kRelu};
    if (is_half) c.d_type = DataType::kF32;
    cases.push_back(c);
    c.d_order = Order::kColumnMajor;
    c.d_type = type;
    cases.push_back(c);
  }
  return cases;
}

}  // namespace gemmd::testing
