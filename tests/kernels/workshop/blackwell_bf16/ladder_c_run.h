// Runs ladder C in the emulator, through a launch function so that a changed copy of a source can
// stand in for it, and says what is wrong with D.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernels/emulator/session.h"
#include "tests/kernels/mma/direct_run.h"
#include "tests/kernels/mma/half_operands.h"

namespace gemmd::testing {

struct BlackwellCase {
  Shape shape;
  ProductForm form = ProductForm::kBf16AccumulateF32;
  bool b_is_k_major = true;  // n x k, else k x n
};

inline std::ostream& operator<<(std::ostream& out, const BlackwellCase& each) {
  return out << each.shape << " " << Name(each.form) << (each.b_is_k_major ? " nk" : " kn");
}

// The order in which D is summed.
enum class Sums : std::uint8_t { kTensorCore, kOneByOne };

struct BlackwellOperands {
  explicit BlackwellOperands(const BlackwellCase& each)
      : form(each.form),
        b_is_k_major(each.b_is_k_major),
        a(each.shape.m, each.shape.k),
        b(each.b_is_k_major ? each.shape.n : each.shape.k,
          each.b_is_k_major ? each.shape.k : each.shape.n),
        d(each.shape.m, each.shape.n) {
    a.FillRandom(FormatOf(form), 1);
    b.FillRandom(FormatOf(form), 2);
    d.Fill(HalfOperands::kPoison);
  }

  // Small whole numbers, whose sums every order gives exactly.
  void FillWithWholeNumbers() {
    std::uint32_t state = 7;
    for (HalfMatrix* matrix : {&a, &b}) {
      for (std::int64_t row = 0; row < matrix->rows(); ++row) {
        for (std::int64_t column = 0; column < matrix->columns(); ++column) {
          state = state * 1664525 + 1013904223;
          const float value = static_cast<float>(state >> 16 & 7) - 3;
          matrix->At(row, column) = emulator::Narrow(FormatOf(form), value);
        }
      }
    }
  }

  Arguments arguments() {
    Arguments arguments;
    arguments.a = a.data();
    arguments.b = b.data();
    arguments.d = d.data();
    return arguments;
  }

  std::vector<std::uint16_t> Expected(Sums sums) const {
    if (sums == Sums::kTensorCore) return ExactProduct(form, a, b, b_is_k_major);
    std::vector<std::uint16_t> product;
    for (std::int64_t row = 0; row < d.rows(); ++row) {
      for (std::int64_t column = 0; column < d.columns(); ++column) {
        float sum = 0;
        for (std::int64_t k = 0; k < a.columns(); ++k) {
          const std::uint16_t factor = b_is_k_major ? b.At(column, k) : b.At(k, column);
          // Two roundings, whatever the compiler may contract.
          const volatile float term = emulator::Widen(FormatOf(form), a.At(row, k)) *
                                      emulator::Widen(FormatOf(form), factor);
          sum += term;
        }
        product.push_back(emulator::Narrow(FormatOf(form), sum));
      }
    }
    return product;
  }

  ProductForm form;
  bool b_is_k_major;
  HalfMatrix a;
  HalfMatrix b;
  HalfMatrix d;
};

inline Problem MakeBlackwellProblem(const BlackwellCase& each) {
  Problem problem = MakeHalfProblem(each.form, each.shape);
  if (!each.b_is_k_major) return problem;
  problem.transpose_b = true;
  problem.b.rows = each.shape.n;
  problem.b.columns = each.shape.k;
  problem.b.leading_dimension = problem.a.leading_dimension;
  return problem;
}

// The report's message, "wrong bits", or nothing where D is right.
inline std::string RunBlackwell(DirectLaunch* launch, const BlackwellCase& each,
                                const emulator::Options& options, Sums sums = Sums::kTensorCore) {
  BlackwellOperands operands(each);
  emulator::Session session;
  session.options = options;
  LaunchTarget target;
  target.emulator = &session;
  const absl::Status status = launch(MakeBlackwellProblem(each), operands.arguments(), target);
  if (!session.report.ok()) return session.report.message;
  if (!status.ok()) return status.ToString();
  const bool is_right = CountDifferent(operands.d, operands.Expected(sums)) == 0 &&
                        CountWrittenPadding(operands.d) == 0;
  return is_right ? "" : "wrong bits";
}

}  // namespace gemmd::testing
