// The part of this kernel that is compiled to serve.
#pragma once

#include "kernels/mma/copy_async/launch.h"
#include "kernels/mma/copy_async/served_step.h"
