// The special registers of the running thread.
#pragma once

#include <cstdint>

#include "kernels/emulator/options.h"

namespace gemmd::emulator {

std::uint32_t ThreadIndex();    // %tid.x
Dimensions BlockIndex();        // %ctaid
Dimensions GridSize();          // %nctaid
std::uint32_t RankInCluster();  // %cluster_ctarank

}  // namespace gemmd::emulator
