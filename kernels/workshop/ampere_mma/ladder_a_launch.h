// Ladder A's launches: the kernel of kernels/mma/copy_async with the values of each step.
#pragma once

#include "kernels/mma/copy_async/launch.h"
#include "kernels/workshop/ampere_mma/ladder_a_steps.h"
