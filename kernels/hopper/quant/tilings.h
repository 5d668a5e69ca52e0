// The tilings of both kernels: values, each a form of one source. Bits are the same in all.
#pragma once

#include "kernels/hopper/quant/packed.h"

namespace gemmd::hopper::quant {

// The expected time of a launch (forms.h), fitted to an H200's times for 133 shapes, by
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
  int strips;         // 1, 2, 4 or 8
  int splits;         // one where sums are a chain
  int groups;         // whose products a warp interleaves: chains that do not wait for each other
  int weight_stages;  // each of a turn: all splits' groups
  int row_stages;     // likewise
  int adders;         // warps that add what the splits have multiplied
  int blocks;         // on a multiprocessor
  TilingCost cost;
};

// With two blocks on a multiprocessor the next grid's weights are on their way while this one's
// last blocks sum. One block of more warps is quicker where K is long.
inline constexpr FewTiling kFewTilings[] = {
    {1, 4, 2, 2, 5, 8, 1, 2, {2, 0.7, 0.15, 0.263}},    // 0: one row
    {1, 2, 4, 2, 4, 6, 1, 2, {3, 0.8, 0.07, 0.14}},     // 1: of few lines
    {1, 1, 16, 1, 6, 4, 1, 1, {1.5, 0.7, 0.09, 0.09}},  // 2: of fewer lines
    {1, 4, 4, 2, 5, 6, 1, 1, {2, 0.7, 0.11, 0.11}},     // 3: of long ones
    {8, 4, 2, 2, 4, 3, 2, 2, {3, 0.7, 0.15, 0.263}},    // 4: up to eight rows
    {8, 2, 4, 1, 6, 3, 2, 2, {2.5, 0.7, 0.1, 0.175}},   // 5: of few lines
    {8, 1, 16, 1, 4, 3, 1, 1, {1.5, 0.7, 0.11, 0.11}},  // 6: of fewer
    {16, 4, 2, 2, 2, 2, 4, 2, {2, 0.7, 0.21, 0.367}},   // 7: up to 16 rows
    {16, 4, 4, 1, 4, 3, 4, 1, {1.5, 0.7, 0.22, 0.22}},  // 8: of long lines
};
inline constexpr int kFewTilingCount = sizeof(kFewTilings) / sizeof(kFewTilings[0]);

// Tilings for weights whose sums are one chain (few_chain.h): one warp a strip.
inline constexpr FewTiling kChainTilings[] = {
    {1, 4, 1, 8, 3, 4, 0, 2, {2.5, 0.7, 0.17, 0.255}},  // 0: one row
    {8, 4, 1, 4, 4, 3, 0, 2, {2, 0.7, 0.2, 0.3}},       // 1
    {16, 4, 1, 4, 3, 3, 0, 2, {2, 0.7, 0.24, 0.36}},    // 2
};
inline constexpr int kChainTilingCount = sizeof(kChainTilings) / sizeof(kChainTilings[0]);

// Tilings for codes of 8 bits, twice as many bytes.
inline constexpr FewTiling kByteTilings[] = {
    {1, 4, 3, 1, 4, 6, 1, 2, {1.5, 0.9, 0.19, 0.38}},     // 0: one row
    {1, 2, 4, 1, 5, 6, 1, 2, {2, 0.95, 0.1, 0.2}},        // 1: of few lines
    {1, 1, 16, 1, 5, 4, 1, 1, {1.5, 0.7, 0.075, 0.075}},  // 2: of fewer lines
    {1, 4, 4, 1, 5, 8, 1, 1, {1.5, 0.95, 0.17, 0.17}},    // 3: of long ones
    {8, 4, 2, 1, 5, 4, 2, 2, {2, 0.9, 0.22, 0.385}},      // 4: up to eight rows
    {8, 2, 4, 1, 4, 3, 1, 2, {2.5, 0.95, 0.12, 0.24}},    // 5: of few lines
    {16, 4, 2, 1, 4, 3, 2, 2, {3, 0.75, 0.25, 0.438}},    // 6: up to 16 rows
    {16, 2, 4, 1, 3, 2, 2, 2, {2.5, 0.7, 0.12, 0.24}},    // 7: of few lines
};
inline constexpr int kByteTilingCount = sizeof(kByteTilings) / sizeof(kByteTilings[0]);

// For nvfp4, whose scales are twice as many bytes: fewer stages fit.
inline constexpr FewTiling kNvfp4Tilings[kChainTilingCount] = {
    {1, 4, 1, 8, 3, 2, 0, 2, {2, 0.7, 0.2, 0.35}},     // 0: one row
    {8, 4, 1, 4, 4, 3, 0, 2, {2, 0.7, 0.24, 0.36}},    // 1
    {16, 4, 1, 4, 3, 3, 0, 2, {2, 0.7, 0.25, 0.438}},  // 2
};

// Where a group has parts, whose scales are up to four times as many bytes. Costs of parts are an
// H200's, read off the twelve or thirteen shapes of docs/benchmarks/quantized.md.
inline constexpr FewTiling kPartTilings[] = {
    {1, 4, 2, 2, 5, 8, 1, 2, {1.5, 0.7, 0.18, 0.305}},   // 0: one row
    {1, 2, 4, 2, 4, 6, 1, 2, {3, 0.85, 0.07, 0.15}},     // 1: of few lines
    {1, 1, 16, 1, 6, 4, 1, 1, {1.5, 0.7, 0.04, 0.096}},  // 2: of fewer lines
    {1, 4, 4, 2, 5, 6, 1, 1, {3, 0.7, 0.185, 0.19}},     // 3: of long ones
    {8, 4, 2, 2, 3, 3, 2, 2, {3, 0.7, 0.18, 0.32}},      // 4: up to eight rows
    {8, 1, 16, 1, 4, 3, 1, 1, {1.5, 0.7, 0.05, 0.104}},  // 5: of few lines
    {16, 4, 2, 2, 2, 2, 4, 2, {3, 0.7, 0.255, 0.43}},    // 6: up to 16 rows
};
inline constexpr int kPartTilingCount = sizeof(kPartTilings) / sizeof(kPartTilings[0]);

// Tilings for parts of codes of 6 and 8 bits.
inline constexpr FewTiling kPartByteTilings[] = {
    {1, 4, 3, 1, 3, 6, 1, 2, {1.5, 0.85, 0.22, 0.47}},    // 0: one row
    {1, 2, 4, 1, 4, 6, 1, 2, {2, 0.95, 0.12, 0.24}},      // 1: of few lines
    {1, 1, 16, 1, 4, 4, 1, 1, {1.5, 0.7, 0.052, 0.112}},  // 2: of fewer lines
    {8, 4, 2, 1, 4, 4, 2, 2, {1.5, 0.95, 0.29, 0.5}},     // 3: up to eight rows
    {16, 4, 2, 1, 3, 3, 2, 2, {1.5, 0.8, 0.33, 0.55}},    // 4: up to 16 rows
};
inline constexpr int kPartByteTilingCount = sizeof(kPartByteTilings) / sizeof(kPartByteTilings[0]);

// Tilings for weights with offsets of 64 or 128 of K, which stand beside the scales.
inline constexpr FewTiling kOffsetTilings[] = {
    {1, 2, 4, 2, 3, 6, 1, 2, {3, 0.85, 0.066, 0.167}},  // 0: one row
    {1, 1, 16, 1, 4, 4, 1, 1, {1.5, 0.7, 0.05, 0.1}},   // 1: of few lines
    {1, 4, 4, 2, 4, 6, 1, 1, {3, 0.7, 0.18, 0.18}},     // 2: of long ones
    {8, 4, 2, 2, 3, 3, 2, 2, {3, 0.7, 0.225, 0.378}},   // 3: up to eight rows
    {8, 1, 16, 1, 2, 3, 1, 1, {1.5, 0.7, 0.055, 0.1}},  // 4: of few lines
    {16, 4, 4, 1, 4, 3, 4, 1, {1.5, 0.7, 0.3, 0.3}},    // 5: up to 16 rows
};
inline constexpr int kOffsetTilingCount = sizeof(kOffsetTilings) / sizeof(kOffsetTilings[0]);
// Offsets of 32 of K: there are no registers for the scales and offsets of two groups.
inline constexpr FewTiling kFineOffsetTilings[] = {
    {1, 4, 3, 1, 5, 8, 1, 2, {1.5, 0.7, 0.23, 0.415}},    // 0: one row
    {1, 2, 4, 1, 6, 6, 1, 2, {2, 0.7, 0.13, 0.27}},       // 1: of few lines
    {1, 1, 16, 1, 4, 4, 1, 1, {1.5, 0.7, 0.055, 0.105}},  // 2: of fewer lines
    {1, 4, 4, 1, 8, 6, 1, 1, {1.5, 0.7, 0.225, 0.225}},   // 3: of long ones
    {8, 4, 2, 1, 6, 3, 2, 2, {2.5, 0.7, 0.264, 0.45}},    // 4: up to eight rows
    {8, 1, 16, 1, 2, 3, 1, 1, {1.5, 0.7, 0.06, 0.108}},   // 5: of few lines
    {16, 4, 4, 1, 4, 3, 4, 1, {1.5, 0.7, 0.35, 0.35}},    // 6: up to 16 rows
};
inline constexpr int kFineOffsetTilingCount =
    sizeof(kFineOffsetTilings) / sizeof(kFineOffsetTilings[0]);
// Offsets of 32 of K beside codes of 8 bits.
inline constexpr FewTiling kOffsetByteTilings[] = {
    {1, 2, 4, 1, 4, 6, 1, 2, {2, 0.95, 0.15, 0.35}},      // 0: one row
    {1, 1, 16, 1, 3, 4, 1, 1, {1.5, 0.7, 0.065, 0.124}},  // 1: of few lines
    {8, 4, 2, 1, 4, 4, 2, 2, {1.5, 0.95, 0.462, 0.663}},  // 2: up to eight rows
    {16, 4, 2, 1, 3, 3, 2, 2, {1.5, 0.8, 0.42, 0.737}},   // 3: up to 16 rows
};
inline constexpr int kOffsetByteTilingCount =
    sizeof(kOffsetByteTilings) / sizeof(kOffsetByteTilings[0]);

// Tilings for codes that have a table, which takes 32 KB of a block's shared memory. Costs of these
// are fitted to 133 shapes of their own.
inline constexpr FewTiling kTableTilings[] = {
    {1, 2, 4, 1, 5, 6, 1, 2, {1.5, 0.7, 0.12, 0.2}},    // 0: one row
    {1, 4, 3, 1, 4, 6, 1, 2, {1.5, 0.7, 0.185, 0.37}},  // 1: of many lines
    {1, 1, 16, 1, 4, 4, 1, 1, {2, 0.7, 0.05, 0.1}},     // 2: of few lines
    {1, 4, 4, 1, 5, 8, 1, 1, {1.5, 0.75, 0.16, 0.2}},   // 3: of long ones
    {8, 4, 4, 1, 3, 3, 2, 1, {2, 0.7, 0.19, 0.235}},    // 4: up to eight rows
    {8, 2, 8, 1, 3, 3, 2, 1, {3, 0.7, 0.07, 0.14}},     // 5: of few lines
    {8, 1, 16, 1, 2, 3, 1, 1, {3, 0.7, 0.05, 0.1}},     // 6: of fewer lines
    {16, 4, 4, 1, 3, 3, 4, 1, {2, 0.7, 0.26, 0.325}},   // 7: up to 16 rows
    {16, 2, 8, 1, 2, 2, 2, 1, {2.5, 0.7, 0.14, 0.19}},  // 8: of few lines
};
inline constexpr int kTableTilingCount = sizeof(kTableTilings) / sizeof(kTableTilings[0]);
// Where its numbers have two terms.
inline constexpr FewTiling kTermTilings[kTableTilingCount] = {
    {1, 2, 4, 2, 2, 4, 1, 2, {2, 0.7, 0.14, 0.245}},
    {1, 4, 3, 1, 4, 6, 1, 2, {1.5, 0.7, 0.26, 0.455}},
    {1, 1, 16, 1, 4, 4, 1, 1, {2.5, 0.7, 0.06, 0.12}},
    {1, 4, 4, 1, 5, 8, 1, 1, {1.5, 0.7, 0.23, 0.288}},
    {8, 4, 4, 1, 3, 3, 2, 1, {2, 0.7, 0.24, 0.3}},
    {8, 2, 8, 1, 3, 3, 2, 1, {2.5, 0.7, 0.14, 0.175}},
    {8, 1, 16, 1, 2, 3, 1, 1, {3, 0.7, 0.06, 0.12}},
    {16, 4, 4, 1, 3, 3, 4, 1, {2, 0.7, 0.35, 0.438}},
    {16, 2, 8, 1, 2, 2, 2, 1, {3, 0.7, 0.18, 0.225}},
};

constexpr int FewTilingCount(CodeFormat format) {
  const bool has_bytes = CodeBits(format) > 4;
  if (HasTable(format)) return kTableTilingCount;
  if (IsChain(format)) return kChainTilingCount;
  if (HasOffsets(format)) {
    if (has_bytes) return kOffsetByteTilingCount;
    return ScaleK(format) == 32 ? kFineOffsetTilingCount : kOffsetTilingCount;
  }
  if (HasParts(format)) return has_bytes ? kPartByteTilingCount : kPartTilingCount;
  return has_bytes ? kByteTilingCount : kFewTilingCount;
}
constexpr FewTiling FewTilingOf(CodeFormat format, int tiling) {
  const bool has_bytes = CodeBits(format) > 4;
  if (HasTable(format)) return (HasTwoTerms(format) ? kTermTilings : kTableTilings)[tiling];
  if (format == CodeFormat::kNvfp4) return kNvfp4Tilings[tiling];
  if (IsChain(format)) return kChainTilings[tiling];
  if (HasOffsets(format)) {
    if (has_bytes) return kOffsetByteTilings[tiling];
    return (ScaleK(format) == 32 ? kFineOffsetTilings : kOffsetTilings)[tiling];
  }
  if (HasParts(format)) return (has_bytes ? kPartByteTilings : kPartTilings)[tiling];
  return (has_bytes ? kByteTilings : kFewTilings)[tiling];
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
  int batch;        // 2, 4 or 8; where a group has parts that is one of them
  int blocks;       // on a multiprocessor
  TilingCost cost;
};

inline constexpr WideTiling kWideTilings[] = {
    {64, 1, 1, 2, 9, 8, 1, {2, 0.7, 0.36, 0.36}},     // 0: few lines
    {64, 2, 2, 2, 6, 8, 1, {3, 0.7, 1, 1}},           // 1: many lines
    {128, 2, 1, 2, 4, 8, 1, {4, 0.7, 0.78, 0.78}},    // 2: some hundred rows
    {128, 2, 2, 1, 4, 2, 1, {4, 0.7, 1.46, 1.46}},    // 3: large products
    {128, 2, 2, 2, 4, 2, 1, {4, 0.7, 1.46, 1.46}},    // 4
    {16, 2, 1, 1, 8, 4, 2, {1.5, 0.7, 0.43, 0.645}},  // 5: 16 rows of many lines
};
inline constexpr int kWideTilingCount = sizeof(kWideTilings) / sizeof(kWideTilings[0]);

// Tiles as above, where sums are one chain, of mxfp4 and of nvfp4, and for codes of 8 bits.
inline constexpr WideTiling kWideChainTilings[kWideTilingCount] = {
    {64, 1, 1, 2, 9, 8, 1, {2, 0.7, 0.38, 0.38}},  {64, 2, 2, 2, 6, 8, 1, {3, 0.7, 1.06, 1.06}},
    {128, 2, 1, 2, 4, 4, 1, {4, 0.7, 0.78, 0.78}}, {128, 2, 2, 1, 4, 4, 1, {4, 0.7, 1.48, 1.48}},
    {128, 2, 2, 2, 4, 4, 1, {4, 0.7, 1.48, 1.48}}, {16, 2, 1, 1, 8, 4, 2, {1.5, 0.7, 0.47, 0.823}},
};
inline constexpr WideTiling kWideNvfp4Tilings[kWideTilingCount] = {
    {64, 1, 1, 2, 9, 8, 1, {2, 0.7, 0.41, 0.41}},  {64, 2, 2, 2, 6, 8, 1, {3, 0.7, 1.14, 1.14}},
    {128, 2, 1, 2, 4, 4, 1, {3, 0.7, 0.84, 0.84}}, {128, 2, 2, 1, 4, 4, 1, {4, 0.7, 1.58, 1.58}},
    {128, 2, 2, 2, 4, 4, 1, {4, 0.7, 1.56, 1.56}}, {16, 2, 1, 1, 8, 4, 2, {1.5, 0.7, 0.54, 0.945}},
};
inline constexpr WideTiling kWideByteTilings[kWideTilingCount] = {
    {64, 1, 1, 2, 8, 8, 1, {2, 0.7, 0.41, 0.41}},  {64, 2, 2, 2, 4, 4, 1, {4, 0.7, 1.16, 1.16}},
    {128, 2, 1, 2, 4, 4, 1, {3, 0.7, 0.88, 0.88}}, {128, 2, 2, 1, 3, 2, 1, {4, 0.7, 1.66, 1.66}},
    {128, 2, 2, 2, 3, 2, 1, {4, 0.7, 1.68, 1.68}}, {16, 2, 1, 1, 4, 4, 2, {2, 0.85, 0.47, 0.823}},
};

// Where a group has parts.
inline constexpr WideTiling kWidePartTilings[] = {
    {64, 1, 1, 2, 9, 0, 1, {2, 0.7, 0.475, 0.475}},  // 0: few lines
    {64, 2, 2, 2, 5, 0, 1, {3, 0.7, 1.3, 1.3}},      // 1: many lines
    {128, 2, 1, 2, 4, 0, 1, {4, 0.7, 1.1, 1.1}},     // 2: many rows
    {16, 2, 1, 1, 7, 0, 2, {3, 0.7, 0.44, 0.73}},    // 3: 16 rows of many lines
};
inline constexpr int kWidePartTilingCount = sizeof(kWidePartTilings) / sizeof(kWidePartTilings[0]);
inline constexpr WideTiling kWidePartByteTilings[kWidePartTilingCount] = {
    {64, 1, 1, 2, 8, 0, 1, {2, 0.7, 0.65, 0.65}},
    {64, 2, 2, 2, 3, 0, 1, {4, 0.7, 1.8, 1.8}},
    {128, 2, 1, 2, 4, 0, 1, {3, 0.7, 1.35, 1.35}},
    {16, 2, 1, 1, 4, 0, 2, {2, 0.85, 0.62, 1.1}},
};

// With offsets, sums of A's rows are made ahead (row_sums.h).
inline constexpr WideTiling kWideOffsetTilings[kWidePartTilingCount] = {
    {64, 1, 1, 2, 9, 0, 1, {5, 0.7, 0.47, 0.47}},
    {64, 2, 2, 2, 5, 0, 1, {5, 0.7, 1.5, 1.5}},
    {128, 2, 1, 2, 4, 0, 1, {6, 0.7, 1.22, 1.22}},
    {16, 2, 1, 1, 6, 0, 2, {5, 0.7, 0.555, 0.84}},
};
inline constexpr WideTiling kWideFineOffsetTilings[kWidePartTilingCount] = {
    {64, 1, 1, 2, 9, 0, 1, {5, 0.7, 0.645, 0.645}},
    {64, 2, 2, 2, 5, 0, 1, {5, 0.7, 2, 2}},
    {128, 2, 1, 2, 4, 0, 1, {6, 0.7, 1.74, 1.74}},
    {16, 2, 1, 1, 6, 0, 2, {5, 0.7, 0.615, 1.06}},
};
inline constexpr WideTiling kWideOffsetByteTilings[kWidePartTilingCount] = {
    {64, 1, 1, 2, 8, 0, 1, {5, 0.7, 0.77, 0.77}},
    {64, 2, 2, 2, 3, 0, 1, {5, 0.7, 2.36, 2.36}},
    {128, 2, 1, 2, 3, 0, 1, {6, 0.7, 1.9, 1.9}},
    {16, 2, 1, 1, 4, 0, 2, {5, 0.85, 0.72, 1.25}},
};

// Codes that have a table, whose numbers have one term, and two.
inline constexpr WideTiling kWideTableTilings[kWidePartTilingCount] = {
    {64, 1, 1, 2, 8, 0, 1, {2, 0.7, 0.58, 0.58}},
    {64, 2, 2, 2, 4, 0, 1, {4, 0.7, 1.62, 1.62}},
    {128, 2, 1, 2, 4, 0, 1, {4, 0.7, 1.22, 1.22}},
    {16, 2, 1, 1, 4, 0, 2, {1.5, 0.7, 0.71, 0.83}},
};
inline constexpr WideTiling kWideTermTilings[kWidePartTilingCount] = {
    {64, 1, 1, 2, 8, 0, 1, {2.5, 0.7, 0.7, 0.7}},
    {64, 2, 2, 2, 4, 0, 1, {4, 0.7, 2.1, 2.4}},
    {128, 2, 1, 2, 4, 0, 1, {4, 0.7, 1.62, 1.62}},
    {16, 2, 1, 1, 4, 0, 2, {1.5, 0.7, 0.73, 1.08}},
};

constexpr int WideTilingCount(CodeFormat format) {
  return HasParts(format) ? kWidePartTilingCount : kWideTilingCount;
}
constexpr WideTiling WideTilingOf(CodeFormat format, int tiling) {
  const bool has_bytes = CodeBits(format) > 4;
  if (HasTable(format)) {
    return (HasTwoTerms(format) ? kWideTermTilings : kWideTableTilings)[tiling];
  }
  if (format == CodeFormat::kNvfp4) return kWideNvfp4Tilings[tiling];
  if (IsChain(format)) return kWideChainTilings[tiling];
  if (HasOffsets(format)) {
    if (has_bytes) return kWideOffsetByteTilings[tiling];
    return (ScaleK(format) == 32 ? kWideFineOffsetTilings : kWideOffsetTilings)[tiling];
  }
  if (HasParts(format)) return (has_bytes ? kWidePartByteTilings : kWidePartTilings)[tiling];
  return (has_bytes ? kWideByteTilings : kWideTilings)[tiling];
}

}  // namespace gemmd::hopper::quant
