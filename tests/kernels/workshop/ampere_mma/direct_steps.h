// The ladder's steps for changed copies of their kernel: included behind it.
#pragma once

#include "kernels/workshop/ampere_mma/ladder_a_steps.h"
#include "tests/kernels/mma/direct_run.h"
