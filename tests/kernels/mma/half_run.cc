#include "tests/kernels/mma/half_run.h"

#include "absl/strings/str_cat.h"
#include "kernels/emulator/session.h"
#include "kernels/gemm.h"

namespace gemmd::testing {

Outcome RunEntry(const std::string& name, ProductForm form, const Shape& shape,
                 const emulator::Options& options, HalfOperands* operands) {
  const Problem problem = MakeHalfProblem(form, shape);
  DeviceTraits device;
  device.kind = DeviceKind::kEmulated;
  Outcome outcome;
  const absl::StatusOr<Plan> plan = Select(BuiltinRegistry(), problem, device, name);
  if (!plan.ok()) {
    outcome.report.violation = emulator::Violation::kBadLaunch;
    outcome.report.message = plan.status().ToString();
    return outcome;
  }
  emulator::Session session;
  session.options = options;
  LaunchTarget target;
  target.emulator = &session;
  const absl::Status status =
      plan->kernel->Launch(problem, plan->config, operands->arguments(), target);
  outcome.report = session.report;
  if (status.ok() != outcome.report.ok()) {
    outcome.report.violation = emulator::Violation::kBadLaunch;
    outcome.report.message = status.ToString();
  }
  if (outcome.report.ok()) {
    outcome.different =
        CountDifferent(operands->d, ExactProduct(form, operands->a, operands->b, false));
  }
  return outcome;
}

std::string CaseName(const std::string& kernel, ProductForm form, const Shape& shape) {
  return absl::StrCat(kernel.substr(kernel.find('/') + 1), "_", Name(form), "_", shape.m, "x",
                      shape.n, "x", shape.k);
}

}  // namespace gemmd::testing
