// Launches a kernel of 16-bit matrices in the emulator without the registry, so that a changed copy
// of a source can stand in for it: D = A * B, f16 summed in f32.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "kernels/emulator/session.h"
#include "tests/kernels/mma/half_operands.h"

namespace gemmd::testing {

using DirectLaunch = absl::Status(const Problem&, const Arguments&, const LaunchTarget&);

// The report's message, "wrong bits", or nothing where D is right.
inline std::string RunDirect(DirectLaunch* launch, const Shape& shape,
                             const emulator::Options& options) {
  constexpr ProductForm kForm = ProductForm::kF16AccumulateF32;
  HalfOperands operands(kForm, shape);
  emulator::Session session;
  session.options = options;
  LaunchTarget target;
  target.emulator = &session;
  const absl::Status status = launch(MakeHalfProblem(kForm, shape), operands.arguments(), target);
  if (!session.report.ok()) return session.report.message;
  if (!status.ok()) return status.ToString();
  const bool is_right =
      CountDifferent(operands.d, ExactProduct(kForm, operands.a, operands.b, false)) == 0 &&
      CountWrittenPadding(operands.d) == 0;
  return is_right ? "" : "wrong bits";
}

}  // namespace gemmd::testing
