// The addition of a compensated sum.
#pragma once

#include "kernels/ptx/platform.h"

namespace gemmd::hopper {
inline namespace GEMMD_BACKEND {

// Adds `rest` to `sum`, and leaves in `rest` what rounding took from that addition. Exact unless
// |rest| > |sum|, where the error is as small as a rounding of rest.
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
