// The thread of a warp that loads, copies, multiplies, commits or stores for it.
#pragma once

#include "kernels/ptx/barriers.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/platform.h"

namespace gemmd::mma {
inline namespace GEMMD_BACKEND {

// True in one lane. Those instructions take uniform registers: unless ptxas sees that one lane is
// left, it puts each of them into a loop over lanes. It sees it of elect.sync, and not of a
// thread's index. REQUIRES: all lanes of the warp ask.
template <bool kElects>
GEMMD_DEVICE bool IsIssuer() {
  if constexpr (kElects) return ptx::ElectOne();
  return ptx::LaneIndex() == 0;
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::mma
