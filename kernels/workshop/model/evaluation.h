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

}  // namespace gemmd::model
