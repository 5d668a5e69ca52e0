#include "kernels/sm120/ladder_b_launch.h"

namespace gemmd::sm120 {

mma::HalfGemmLaunch CudaLadderB(int step) { return LadderBLaunch(step); }

}  // namespace gemmd::sm120
