// The ladder played through: every step and shape once, steps that the model does not have taking
// the result of the step before.
#pragma once

#include <array>

#include "kernels/workshop/model/ladder.h"
#include "kernels/workshop/model/published.h"
#include "kernels/workshop/model/simulation.h"

namespace gemmd::model {

struct Evaluation {
  Machine machine;
  // The results by step, then by shape, in the order of kSides.
  std::array<std::array<Result, kShapes>, kSteps> results;

  double Teraflops(int step, int shape) const;
};

Evaluation Evaluate(const Machine& machine);

// The clocks of an instruction of the thread that multiplies with which the rates of steps 0 and 1
// are nearest to the published ones, to a tenth: at 8192 and 16384, since launch and signals, which
// count where products are small, are not modelled. The one figure here that comes from published
// times; steps 2 to 11 had no part in it.
inline constexpr double kFittedIssueClocks = 6.9;
// The mean square of the logarithm of simulated over published rates there.
double FitError(double issue_clocks);
// Evaluate() with that cost, every step on its own: each has instructions.
Evaluation EvaluateInstructions();

}  // namespace gemmd::model
