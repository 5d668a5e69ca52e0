// Ladder B: five steps from cp.async to TMA in both directions, within the 99 KB of shared
// memory and the mma.sync of sm_120.
//
// One kernel family (ladder_b.h) reads these values; each step is the one before it with one
// thing changed. A ladder of this shape was published for an RTX 5060, its last step left
// open; README.md has its figures beside ours.
#pragma once

namespace gemmd::sm120 {

struct BcfDbfRw {
  static constexpr const char* kName = "sm120/bcf_dbf_rw";
  static constexpr const char* kIdea =
      "two stages by cp.async, no bank conflicts, D through shared memory, two blocks";
  static constexpr int kTileK = 32;
  static constexpr int kStages = 2;
  static constexpr bool kTensorLoads = false;     // by TMA, with fragments one step ahead
  static constexpr int kBSets = 1;                // of registers for fragments of B
  static constexpr bool kTensorStores = false;    // of D, by TMA
  static constexpr bool kReleaseByWarps = false;  // stages, at mbarriers; else by the block
  static constexpr int kBlocksPerMultiprocessor = 2;
  static constexpr int kRasterGroup = 8;  // rows of tiles walked together
};

struct KStages : BcfDbfRw {
  static constexpr const char* kName = "sm120/k_stages";
  static constexpr const char* kIdea = "bcf_dbf_rw with three stages";
  static constexpr int kStages = 3;
};

struct TmaR64 : KStages {
  static constexpr const char* kName = "sm120/tma_r_64";
  static constexpr const char* kIdea =
      "k_stages with TMA loads, tiles of K twice as long and fragments loaded one step ahead";
  static constexpr int kTileK = 64;
  static constexpr bool kTensorLoads = true;
  static constexpr int kBlocksPerMultiprocessor = 1;
};

struct TmaR32 : TmaR64 {
  static constexpr const char* kName = "sm120/tma_r_32";
  static constexpr const char* kIdea = "tma_r_64 with shorter tiles of K, so that two blocks fit";
  static constexpr int kTileK = 32;
  static constexpr int kBlocksPerMultiprocessor = 2;
};

struct TmaRw : TmaR32 {
  static constexpr const char* kName = "sm120/tma_rw";
  static constexpr const char* kIdea =
      "tma_r_32 with D by TMA too, each warp its own box, and stages released by warps";
  static constexpr bool kTensorStores = true;
  static constexpr bool kReleaseByWarps = true;
};

}  // namespace gemmd::sm120
