// The addition of a compensated sum.
#pragma once

#include "kernels/ptx/platform.h"

namespace gemmd::hopper {
inline namespace GEMMD_BACKEND {

// sum + rest, exactly: as `sum` and what is left in `rest`, but where |rest| > |sum|, which costs
// as much as a rounding of rest.
template <int kSums>
GEMMD_DEVICE void AddRest(float (&sum)[kSums], float (&rest)[kSums]) {
  GEMMD_UNROLL
  for (int i = 0; i < kSums; ++i) {
    const float total = sum[i] + rest[i];
    rest[i] -= total - sum[i];
    sum[i] = total;
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper
