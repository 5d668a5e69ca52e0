// The ladder's steps for changed copies of their kernel: included behind it.
#pragma once

#include "kernels/workshop/sm120_tma/ladder_b_steps.h"
#include "tests/kernels/mma/direct_run.h"
