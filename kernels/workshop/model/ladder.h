// The steps of ladder D as shapes of kernels, one idea a step.
#pragma once

#include "kernels/workshop/model/kernel_shape.h"
#include "kernels/workshop/model/machine.h"
#include "kernels/workshop/model/schedule.h"

namespace gemmd::model {

inline constexpr int kSteps = 13;  // 0 to 11 are published; 12 is this project's

struct Step {
  const char* idea;
  // False where the step changes nothing that the model has: it inherits the step before.
  bool is_modelled;
};

// REQUIRES of all: 0 <= step < kSteps; M = N = K = side.
const Step& StepOf(int step);
bool IsModelled(int step, int side);
KernelShape ShapeOf(int step, int side);
Schedule ScheduleOf(int step, int side, const Machine& machine);

}  // namespace gemmd::model
