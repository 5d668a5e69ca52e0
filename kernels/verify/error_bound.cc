#include "kernels/verify/error_bound.h"

#include <cmath>

#include "base/numbers/fp8.h"
#include "kernels/dequantize/dequantized_problem.h"
#include "kernels/short_sums.h"

namespace gemmd {
namespace {

constexpr double kTf32Rounding = 0x1p-9;  // of two operands
constexpr double kReduced = 0x1p-9;
constexpr double kTableRounding = 0x1p-17;

// Returns whether the kernel may multiply codes of fp8. Others decode them.
bool UsesTensorCores(const Accuracy& accuracy) {
  return accuracy.is_fast || accuracy.is_reduced || accuracy.sums_fp8;
}

// Returns whether tensor cores, which keep 14 bits of a sum, may multiply the codes.
bool MayMultiplyFp8(const Problem& problem, const Accuracy& accuracy) {
  if (!IsFp8(problem.a.type) || !IsFp8(problem.b.type)) return false;
  return !IsDequantized(problem) ||
         (problem.accumulate == DataType::kF32 && UsesTensorCores(accuracy));
}

// Returns whether tensor cores may multiply the numbers of B's table as sums of two halves.
bool MayRoundTable(const Problem& problem) {
  return (problem.b.type == DataType::kNf4 || problem.b.type == DataType::kBnbFp4) &&
         !IsQuantizedType(problem.a.type);
}

double Fp8Loss(double k) { return (k / 32 + 4) * 0x1p-13; }

double LossOf(const Problem& problem, const Accuracy& accuracy) {
  const auto k = static_cast<double>(problem.k);
  if (problem.accumulate == DataType::kF16) return (k + 4) * 0x1p-11;
  if (MayMultiplyFp8(problem, accuracy)) return Fp8Loss(k);
  if (IsDequantized(problem)) {
    if (problem.accumulate == DataType::kF32) {
      return (k / 8 + 8) * 0x1p-23 + (MayRoundTable(problem) ? kTableRounding : 0);
    }
    return (k / 8 + 8) * 0x1p-52 + (problem.d.type == DataType::kF64 ? 0 : 0x1p-24);
  }
  switch (problem.a.type) {
    case DataType::kF64:
      return (k / 8 + 8) * 0x1p-52;
    case DataType::kInt8:
      // Sums are exact, and so is binary64 up to 2^53.
      if (problem.d.type != DataType::kInt32) return 0x1p-20;
      return static_cast<double>(problem.n) * k < 0x1p38 ? 0 : 0x1p-50;
    case DataType::kTf32:
      return (k / 8 + 8) * 0x1p-23 + kTf32Rounding;
    default:
      return (k / 8 + 8) * 0x1p-23;
  }
}

double WorstOf(const Problem& problem, const Accuracy& accuracy) {
  const auto k = static_cast<double>(problem.k);
  switch (problem.accumulate) {
    case DataType::kF64:
      return (k + 32) * 0x1p-53 + (problem.d.type == DataType::kF64 ? 0 : 0x1p-23);
    case DataType::kF16:
      return (k + 32) * 0x1p-11;
    case DataType::kInt32:
      return problem.d.type == DataType::kInt32 ? 0 : 0x1p-20;
    default:
      break;
  }
  double sum = (k + 32) * 0x1p-23;
  // The library rounds to D's type before a bias that it fuses, too.
  if (accuracy.is_fast && problem.epilogue.has_bias && problem.d.type == problem.a.type) {
    if (problem.d.type == DataType::kBf16) sum += 0x1p-8;
    if (problem.d.type == DataType::kF16) sum += 0x1p-11;
  }
  if (problem.a.type == DataType::kTf32) sum += kTf32Rounding;
  if (MayRoundTable(problem)) sum += kTableRounding;
  if (UsesTensorCores(accuracy) && MayMultiplyFp8(problem, accuracy)) {
    sum += 33 * 0x1p-13 * (accuracy.is_reduced ? std::ceil(k / 32) : 4);
  }
  return sum;
}

}  // namespace

Accuracy AccuracyOf(const Kernel& kernel) {
  const Kernel::Traits& traits = kernel.traits();
  return {traits.is_reduced, traits.determinism == Determinism::kFast,
          dynamic_cast<const SumsFp8InTensorCores*>(&kernel) != nullptr};
}

double AccumulationLoss(const Problem& problem, const Accuracy& accuracy) {
  return LossOf(problem, accuracy) + (accuracy.is_reduced ? kReduced : 0);
}

std::optional<double> ErrorBound(const Problem& problem, const Accuracy& accuracy) {
  if (problem.epilogue.activation != Activation::kNone) return std::nullopt;
  return WorstOf(problem, accuracy) + (accuracy.is_reduced ? kReduced : 0);
}

}  // namespace gemmd
