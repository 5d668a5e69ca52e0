// Ladder B: eleven steps from cp.async to TMA in both directions and to warp tiles of 64x64, within
// the 99 KB of shared memory and the mma.sync of sm_120.
//
// One kernel (kernels/mma/tensor_copy/gemm.h) reads these values; each step is the one that it
// derives from with one thing changed. A ladder of this shape was published for an RTX 5060, its
// last step left open; README.md has its figures beside ours.
#pragma once

#include "kernels/mma/tensor_copy/served_step.h"

namespace gemmd::sm120_tma {

struct BcfDbfRw {
  static constexpr const char* kName = "sm120/bcf_dbf_rw";
  static constexpr const char* kIdea =
      "two stages by cp.async, no bank conflicts, D through shared memory, two blocks";
  static constexpr int kTileK = 32;
  static constexpr int kStages = 2;
  static constexpr int kWarpN = 32;               // columns of D that a warp computes, of 64 rows
  static constexpr bool kTensorLoads = false;     // by TMA, which one thread issues
  static constexpr bool kFragmentsAhead = false;  // by one step of K, across tiles too
  static constexpr int kBoxWarps = 0;             // that fill a box of D for TMA; 0: by threads
  static constexpr bool kReleaseByWarps = false;  // stages, at mbarriers; else by the block
  static constexpr int kBlocksPerMultiprocessor = 2;
  static constexpr int kRasterGroup = 8;  // rows of tiles walked together
};

struct KStages : BcfDbfRw {
  static constexpr const char* kName = "sm120/k_stages";
  static constexpr const char* kIdea = "bcf_dbf_rw with three stages";
  static constexpr int kStages = 3;
};

struct TmaLoads : KStages {
  static constexpr const char* kName = "sm120/tma_loads";
  static constexpr const char* kIdea = "k_stages with loads by TMA, which one thread issues";
  static constexpr bool kTensorLoads = true;
};

// tma_loads with fragments loaded one step ahead, across tiles too: what serves sm_120.
using TmaR32 = tensor_copy::ServedStep;

struct TmaR64 : TmaR32 {
  static constexpr const char* kName = "sm120/tma_r_64";
  static constexpr const char* kIdea =
      "tma_r_32 with tiles of K twice as long: half the barriers, but two blocks need 192 KB";
  static constexpr int kTileK = 64;
  static constexpr int kBlocksPerMultiprocessor = 1;
};

struct TmaRw : TmaR32 {
  static constexpr const char* kName = "sm120/tma_rw";
  static constexpr const char* kIdea = "tma_r_32 with D by TMA too, each warp its own 64x32 of it";
  static constexpr int kBoxWarps = 1;
};

struct PairBoxes : TmaRw {
  static constexpr const char* kName = "sm120/pair_boxes";
  static constexpr const char* kIdea =
      "tma_rw with boxes of 64x64 that two warps fill: rows of 128 bytes, not 64";
  static constexpr int kBoxWarps = 2;
};

struct WarpRelease : TmaR32 {
  static constexpr const char* kName = "sm120/warp_release";
  static constexpr const char* kIdea =
      "tma_r_32 with stages released by warps: no barrier of the block, one thread waits for all";
  static constexpr bool kReleaseByWarps = true;
};

struct Warps64 : TmaR32 {
  static constexpr const char* kName = "sm120/warps_64x64";
  static constexpr const char* kIdea =
      "tma_r_32 with four warps of 64x64, not eight of 64x32: two thirds of the bytes read";
  static constexpr int kWarpN = 64;
};

struct Warps64K64 : Warps64 {
  static constexpr const char* kName = "sm120/warps_64x64_k64";
  static constexpr const char* kIdea =
      "warps_64x64 with tiles of K twice as long: half the barriers, but two blocks need 192 KB";
  static constexpr int kTileK = 64;
  static constexpr int kBlocksPerMultiprocessor = 1;
};

struct TmaRw64 : Warps64K64 {
  static constexpr const char* kName = "sm120/tma_rw_64x64";
  static constexpr const char* kIdea =
      "warps_64x64_k64 with D by TMA too: a warp's own 64x64 has rows of 128 bytes";
  static constexpr int kBoxWarps = 1;
};

}  // namespace gemmd::sm120_tma
