#include "kernels/workshop/model/evaluation.h"

#include <cmath>
#include <cstddef>

namespace gemmd::model {

double Evaluation::Teraflops(int step, int shape) const {
  const int side = kSides[static_cast<std::size_t>(shape)];
  return results[static_cast<std::size_t>(step)][static_cast<std::size_t>(shape)].Teraflops(
      machine, {side, side, side});
}

namespace {

Result Play(const Machine& machine, int step, int side) {
  return Simulate(machine, ShapeOf(step, side), {side, side, side},
                  ScheduleOf(step, side, machine));
}

}  // namespace

Evaluation Evaluate(const Machine& machine) {
  Evaluation evaluation = {machine, {}};
  for (std::size_t shape = 0; shape < kShapes; ++shape) {
    const int side = kSides[shape];
    for (std::size_t at = 0; at < kSteps; ++at) {
      const int step = static_cast<int>(at);
      evaluation.results[at][shape] =
          IsModelled(step, side) ? Play(machine, step, side) : evaluation.results[at - 1][shape];
    }
  }
  return evaluation;
}

double FitError(double issue_clocks) {
  Machine machine;
  machine.issue_clocks = issue_clocks;
  double sum = 0;
  for (const std::size_t step : {0, 1}) {
    for (const std::size_t shape : {2, 3}) {
      const int side = kSides[shape];
      const double rate =
          Play(machine, static_cast<int>(step), side).Teraflops(machine, {side, side, side});
      const double ratio = std::log(rate / kPublishedTeraflops[step][shape]);
      sum += ratio * ratio;
    }
  }
  return sum / 4;
}

Evaluation EvaluateInstructions() {
  Evaluation evaluation;
  evaluation.machine.issue_clocks = kFittedIssueClocks;
  for (std::size_t step = 0; step < kSteps; ++step) {
    for (std::size_t shape = 0; shape < kShapes; ++shape) {
      evaluation.results[step][shape] =
          Play(evaluation.machine, static_cast<int>(step), kSides[shape]);
    }
  }
  return evaluation;
}

}  // namespace gemmd::model
