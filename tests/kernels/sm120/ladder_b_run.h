// Runs a step of ladder B by its kernel's name, for tests that change the kernel's source.
// Include the kernel first.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/emulator/launch.h"
#include "kernels/mma/half_gemm_types.h"
#include "kernels/sm120/ladder_b_maps.h"
#include "tests/kernels/mma/half_operands.h"

namespace gemmd::testing {

template <class Step>
Outcome RunLadderB(const Shape& shape, const emulator::Options& options,
                   const std::vector<std::uint16_t>& expected) {
  constexpr ProductForm kForm = ProductForm::kF16AccumulateF32;
  HalfOperands operands(kForm, shape);
  Outcome outcome;
  const absl::StatusOr<sm120::LadderBParams> params =
      sm120::MakeLadderBParams<Step>(MakeHalfProblem(kForm, shape), operands.arguments());
  if (!params.ok()) {
    outcome.report.violation = emulator::Violation::kBadLaunch;
    outcome.report.message = params.status().ToString();
    return outcome;
  }
  emulator::LaunchRequest request;
  request.kernel = Step::kName;
  request.grid.x = params->gemm.tiles_m * params->gemm.tiles_n;
  request.threads = sm120::kThreads;
  request.shared_bytes = sm120::LadderBLayout<Step>::kSharedBytes;
  request.buffers = {operands.a.ReadOnly("A"), operands.b.ReadOnly("B"), operands.d.Writable("D")};
  outcome.report = emulator::Launch(request, options,
                                    [&] { sm120::LadderB<Step, mma::F16AccumulateF32>(*params); });
  if (outcome.report.ok()) {
    outcome.different = CountDifferent(operands.d, expected) + CountWrittenPadding(operands.d);
  }
  return outcome;
}

inline std::vector<std::uint16_t> ExpectedOfLadderB(const Shape& shape) {
  constexpr ProductForm kForm = ProductForm::kF16AccumulateF32;
  const HalfOperands operands(kForm, shape);
  return ExactProduct(kForm, operands.a, operands.b, false);
}

}  // namespace gemmd::testing
