// The part of this kernel that is compiled to serve.
#pragma once

#include "kernels/mma/tensor_copy/launch.h"
#include "kernels/mma/tensor_copy/served_step.h"
