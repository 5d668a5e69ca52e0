// The tilings of the half family that serve 8-bit operands. Their stages have 128 bytes of K here
// as there, so boxes, stages and shared memory are the same.
#pragma once

#include "kernels/hopper/half/tilings.h"

namespace gemmd::hopper::bytes {

struct ByteTiling {
  int place = 0;  // in half::kTilings
  // For PredictedUs(): cycles of a multiprocessor for a block of 128 of K, and for a tile. Measured
  // on an H200 at the clock that its power allows (docs/benchmarks/bytes.md).
  double k_block_cycles = 0;
  double tile_cycles = 0;
};

// In the order of the registry: selection takes the first of equal predictions.
inline constexpr ByteTiling kInt8Tilings[] = {
    {half::kPp128x192c2, 790, 300},     {half::kCoop128x256, 1160, 2000},
    {half::kCoop128x256c2, 1200, 2500}, {half::kCoop128x128c2, 600, 1800},
    {half::kOne64x128, 384, 900},       {half::kOne64x64, 256, 500},
    {half::kOne64x128c2, 350, 1800},
};
// Sums of floats take twice the registers of their tile, so that turns have no room.
inline constexpr ByteTiling kFp8Tilings[] = {
    {half::kCoop128x256c2, 1100, 3200}, {half::kCoop128x256, 1165, 1500},
    {half::kCoop128x128c2, 680, 1800},  {half::kOne64x128, 520, 900},
    {half::kOne64x64, 380, 500},        {half::kOne64x128c2, 500, 1800},
};
inline constexpr int kInt8TilingCount = sizeof(kInt8Tilings) / sizeof(kInt8Tilings[0]);
inline constexpr int kFp8TilingCount = sizeof(kFp8Tilings) / sizeof(kFp8Tilings[0]);

}  // namespace gemmd::hopper::bytes
