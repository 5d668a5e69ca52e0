#include "kernels/workshop/model/evaluation.h"

#include <cstddef>

namespace gemmd::model {

double Evaluation::Teraflops(int step, int shape) const {
  const int side = kSides[static_cast<std::size_t>(shape)];
  return results[static_cast<std::size_t>(step)][static_cast<std::size_t>(shape)].Teraflops(
      machine, {side, side, side});
}

Evaluation Evaluate(const Machine& machine) {
  Evaluation evaluation = {machine, {}};
  for (std::size_t shape = 0; shape < kShapes; ++shape) {
    const int side = kSides[shape];
    for (std::size_t at = 0; at < kSteps; ++at) {
      const int step = static_cast<int>(at);
      evaluation.results[at][shape] =
          IsModelled(step, side) ? Simulate(machine, ShapeOf(step, side), {side, side, side},
                                            ScheduleOf(step, side, machine))
                                 : evaluation.results[at - 1][shape];
    }
  }
  return evaluation;
}

}  // namespace gemmd::model
