// The steps of ladder D as shapes of kernels, one idea a step. Tiles, stages and buffers of a shape
// are those of the kernel's own layout.
#pragma once

#include <vector>

#include "kernels/workshop/model/kernel_shape.h"
#include "kernels/workshop/model/machine.h"
#include "kernels/workshop/model/schedule.h"

namespace gemmd::model {

inline constexpr int kSteps = 14;  // 0 to 11 are published; 12 and 13 are this project's

struct Step {
  const char* idea;
  // False where the step changes nothing that the model has but instructions: it inherits the step
  // before.
  bool is_modelled;
};

// REQUIRES of all: 0 <= step < kSteps; M = N = K = side.
const Step& StepOf(int step);
bool IsModelled(int step, int side);
// Instructions of a stage are those of CUDA 13.0's code for sm_100a, which resources_test reads.
KernelShape ShapeOf(int step, int side);
// The shape with tiles of other columns, and as many stages as they leave room for.
KernelShape WithColumns(const KernelShape& shape, int columns);
Schedule ScheduleOf(int step, int side, const Machine& machine);

// A way to lay out what step 9 keeps in shared memory: how D goes through it, and the stages that
// are left.
struct StoreForm {
  const char* name;
  int shared_bytes;
  KernelShape shape;
};
std::vector<StoreForm> StoreForms(int side);

}  // namespace gemmd::model
