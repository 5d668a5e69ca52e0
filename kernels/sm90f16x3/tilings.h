// The tilings of the f32 product in three f16 products, as values. The kernel's rows are D's
// columns, lines of B; its columns are D's rows, lines of A.
#pragma once

#include "kernels/sm90f32/tilings.h"

namespace gemmd::sm90f16x3 {

using sm90f32::Tiling;

// The cycles are of a stage, 64 of K. README.md says which tiling serves what. 192 columns are
// what 240 registers hold of sums and rests.
inline constexpr Tiling kTilings[] = {
    sm90f32::TwoInTurns(128, 3, 1760), sm90f32::TwoInTurns(192, 2, 2500),
    sm90f32::TwoInTurns(64, 4, 1060),  sm90f32::One(64, 6, 660),
    sm90f32::One(16, 9, 460),
};

inline constexpr int kTilingCount = sizeof(kTilings) / sizeof(kTilings[0]);

}  // namespace gemmd::sm90f16x3
