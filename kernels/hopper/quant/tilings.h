// The tilings of both kernels: values, each a form of one source. Bits are the same in all.
#pragma once

#include <cstdint>

namespace gemmd::hopper::quant {

// The expected time of a launch (forms.h), fitted to an H100's times for 133 shapes, by
// tests/kernels/hopper/quant/gpu/fit.py.
struct TilingCost {
  double launch_us;      // until the first weights come, and from the last ones to D's end
  double memory_share;   // of the device's bandwidth, at most
  double group_us;       // of 128 of K, for a block alone on its multiprocessor
  double full_group_us;  // the same for two
};

// Up to 16 rows of A. A block has `strips` strips of lines of W; `splits` warps share a strip: they
// take turns along K, `groups` groups of 128 at a time.
struct FewTiling {
  int rows;           // of A: 1, 8 or 16
  int strips;         // 2 or 4
  int splits;         // 2 or 4
  int groups;         // whose products a warp interleaves: chains that do not wait for each other
  int weight_stages;  // each of a turn: all splits' groups
  int row_stages;     // likewise
  int blocks;         // on a multiprocessor
  TilingCost cost;
};

// With two blocks on a multiprocessor the next grid's weights are on their way while this one's
// last blocks sum.
inline constexpr FewTiling kFewTilings[] = {
    {1, 4, 2, 2, 5, 8, 2, {2.5, 0.97, 0.14, 0.14}},   // 0: one row
    {1, 2, 4, 2, 4, 6, 2, {2, 0.91, 0.13, 0.195}},    // 1: of few lines: half as many a block
    {8, 4, 2, 2, 4, 3, 2, {2, 0.94, 0.15, 0.15}},     // 2
    {16, 4, 2, 2, 2, 2, 2, {1.5, 0.78, 0.18, 0.36}},  // 3
    {16, 4, 2, 2, 5, 4, 1, {2, 0.78, 0.17, 0.17}},    // 4
    {16, 8, 2, 2, 3, 3, 1, {1.5, 0.84, 0.31, 0.31}},  // 5: of many lines, twice as many a block
};
inline constexpr int kFewTilingCount = sizeof(kFewTilings) / sizeof(kFewTilings[0]);

// Tilings for weights whose sums are one chain (few_chain.h): one warp a strip.
inline constexpr FewTiling kChainTilings[] = {
    {1, 4, 1, 8, 3, 4, 2, {2, 0.91, 0.17, 0.298}},    // 0: one row
    {8, 4, 1, 4, 4, 3, 2, {2.5, 0.91, 0.19, 0.285}},  // 1
    {16, 4, 1, 4, 3, 3, 2, {2, 0.78, 0.24, 0.36}},    // 2
};
inline constexpr int kChainTilingCount = sizeof(kChainTilings) / sizeof(kChainTilings[0]);

constexpr FewTiling FewTilingOf(bool is_chain, int tiling) {
  return is_chain ? kChainTilings[tiling] : kFewTilings[tiling];
}

// Any number of rows. `groups` warpgroups have `line_blocks` blocks of 64 lines each, by all rows
// of the tile; a cluster's blocks have lines of their own and share the loading of A. While a batch
// of steps of 16 of K is multiplied, the next is decoded.
struct WideTiling {
  int rows;         // of A: a multiple of 16
  int groups;       // 1 or 2
  int line_blocks;  // 1 or 2
  int cluster;      // 1 or 2
  int stages;       // of 128 of K
  int batch;        // 2, 4 or 8
  int chain_batch;  // the same where sums are one chain
  int blocks;       // on a multiprocessor
  TilingCost cost;
};

inline constexpr WideTiling kWideTilings[] = {
    {64, 1, 1, 2, 9, 8, 8, 1, {2, 0.71, 0.36, 0.36}},     // 0: few lines
    {64, 2, 2, 2, 6, 8, 8, 1, {3, 0.71, 0.96, 0.96}},     // 1: many lines
    {128, 2, 1, 2, 4, 8, 4, 1, {3, 0.71, 0.78, 0.78}},    // 2: some hundred rows
    {128, 2, 2, 1, 4, 2, 4, 1, {3, 0.71, 1.42, 1.42}},    // 3: large products
    {128, 2, 2, 2, 4, 2, 4, 1, {3, 0.71, 1.44, 1.44}},    // 4
    {16, 2, 1, 1, 8, 4, 4, 2, {1.5, 0.91, 0.41, 0.615}},  // 5: 16 rows of many lines
};
// Their costs where sums are one chain.
inline constexpr TilingCost kWideChainCosts[] = {
    {2, 0.71, 0.38, 0.38}, {3, 0.71, 1.06, 1.06}, {3, 0.71, 0.78, 0.78},
    {3, 0.71, 1.44, 1.44}, {3, 0.71, 1.46, 1.46}, {1.5, 0.78, 0.48, 0.84},
};
inline constexpr int kWideTilingCount = sizeof(kWideTilings) / sizeof(kWideTilings[0]);

}  // namespace gemmd::hopper::quant
