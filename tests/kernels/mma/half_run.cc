#include "tests/kernels/mma/half_run.h"

#include "absl/strings/str_cat.h"
#include "kernels/emulator/session.h"

namespace gemmd::testing {

Problem MakeHalfProblem(ProductForm form, const Shape& shape) {
  const DataType type = form == ProductForm::kBf16AccumulateF32 ? DataType::kBf16 : DataType::kF16;
  Problem problem = MakeProblem(shape.m, shape.n, shape.k, type, type);
  if (form == ProductForm::kF16AccumulateF16) problem.accumulate = DataType::kF16;
  problem.a.leading_dimension = (shape.k + 7) / 8 * 8;
  problem.b.leading_dimension = (shape.n + 7) / 8 * 8;
  problem.d.leading_dimension = (shape.n + 7) / 8 * 8;
  return problem;
}

HalfOperands::HalfOperands(ProductForm form, const Shape& shape)
    : a(shape.m, shape.k), b(shape.k, shape.n), d(shape.m, shape.n) {
  a.FillRandom(FormatOf(form), 1);
  b.FillRandom(FormatOf(form), 2);
  d.Fill(kPoison);
}

Arguments HalfOperands::arguments() {
  Arguments arguments;
  arguments.a = a.data();
  arguments.b = b.data();
  arguments.d = d.data();
  return arguments;
}

std::int64_t CountWrittenPadding(const HalfMatrix& d) {
  std::int64_t written = 0;
  for (std::int64_t row = 0; row + 1 < d.rows(); ++row) {
    for (std::int64_t column = d.columns(); column < d.leading_dimension(); ++column) {
      written += d.At(row, column) != HalfOperands::kPoison;
    }
  }
  return written;
}

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
