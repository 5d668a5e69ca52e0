// Ladder B: six steps from cp.async to TMA in both directions, within the 99 KB of shared
// memory and the mma.sync of sm_120.
//
// One kernel family (ladder_b.h) reads these values; each step is the one that it derives from
// with one thing changed. A ladder of this shape was published for an RTX 5060, its last step
// left open; README.md has its figures beside ours.
#pragma once

namespace gemmd::sm120 {

struct BcfDbfRw {
  static constexpr const char* kName = "sm120/bcf_dbf_rw";
  static constexpr const char* kIdea =
      "two stages by cp.async, no bank conflicts, D through shared memory, two blocks";
  static constexpr int kTileK = 32;
  static constexpr int kStages = 2;
  static constexpr bool kTensorLoads = false;     // by TMA, which one thread issues
  static constexpr bool kFragmentsAhead = false;  // by one step of K, across tiles too
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

struct TmaLoads : KStages {
  static constexpr const char* kName = "sm120/tma_loads";
  static constexpr const char* kIdea = "k_stages with loads by TMA, which one thread issues";
  static constexpr bool kTensorLoads = true;
};

struct TmaR32 : TmaLoads {
  static constexpr const char* kName = "sm120/tma_r_32";
  static constexpr const char* kIdea =
      "tma_loads with fragments loaded one step ahead, across tiles too";
  static constexpr bool kFragmentsAhead = true;
};

struct TmaR64 : TmaR32 {
  static constexpr const char* kName = "sm120/tma_r_64";
  static constexpr const char* kIdea =
      "tma_r_32 with tiles of K twice as long: half the barriers, but two blocks need 192 KB";
  static constexpr int kTileK = 64;
  static constexpr int kBlocksPerMultiprocessor = 1;
};

struct TmaRw : TmaR32 {
  static constexpr const char* kName = "sm120/tma_rw";
  static constexpr const char* kIdea =
      "tma_r_32 with D by TMA too, each warp its own box, and stages released by warps";
  static constexpr bool kTensorStores = true;
  static constexpr bool kReleaseByWarps = true;
};

}  // namespace gemmd::sm120
