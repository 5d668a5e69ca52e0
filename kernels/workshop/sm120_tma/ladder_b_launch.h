// Ladder B's launches: the kernel of kernels/mma/tensor_copy with the values of each step.
#pragma once

#include "kernels/mma/tensor_copy/launch.h"
#include "kernels/workshop/sm120_tma/ladder_b_steps.h"
