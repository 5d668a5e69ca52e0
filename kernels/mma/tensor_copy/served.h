// What is compiled of this kernel to serve.
#pragma once

#include "kernels/mma/tensor_copy/launch.h"
#include "kernels/mma/tensor_copy/served_step.h"
