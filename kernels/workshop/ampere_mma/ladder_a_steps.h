// Ladder A: eight steps from fragment loads by hand to a rasterised software pipeline.
//
// One kernel (kernels/mma/copy_async/gemm.h) reads these values; each step is the one before it
// with one thing changed. A ladder of this shape was published for an A100, up to a05; README.md
// has its figures beside ours.
#pragma once

#include "kernels/mma/copy_async/served_step.h"

namespace gemmd::ampere_mma {

struct A01a {
  static constexpr const char* kName = "sm80/a01a";
  static constexpr const char* kIdea = "mma.sync fed element by element from shared memory";
  static constexpr bool kLoadsByMatrix = false;  // by ldmatrix; else ld.shared of 16 bits each
  static constexpr bool kSwizzle = false;
  static constexpr int kStages = 1;
  static constexpr int kBarriers = 2;  // of the block for each tile of K
  static constexpr bool kPipelineFragments = false;
  static constexpr int kRasterGroup = 1;  // rows of tiles walked together
  // A block computes kTileM x kTileN of D, kTileK of K at a time, with a grid of kWarpsM x
  // kWarpsN warps.
  static constexpr int kTileM = 256;
  static constexpr int kTileN = 128;
  static constexpr int kTileK = 64;
  static constexpr int kWarpsM = 4;
  static constexpr int kWarpsN = 2;
  static constexpr int kBlocksPerMultiprocessor = 1;
};

struct A01b : A01a {
  static constexpr const char* kName = "sm80/a01b";
  static constexpr const char* kIdea = "a01a with fragments by ldmatrix";
  static constexpr bool kLoadsByMatrix = true;
};

struct A02 : A01b {
  static constexpr const char* kName = "sm80/a02";
  static constexpr const char* kIdea = "a01b with shared memory swizzled: no bank conflicts";
  static constexpr bool kSwizzle = true;
};

struct A03a : A02 {
  static constexpr const char* kName = "sm80/a03a";
  static constexpr const char* kIdea = "a02 with three stages: two tiles' copies are in flight";
  static constexpr int kStages = 3;
};

struct A03b : A03a {
  static constexpr const char* kName = "sm80/a03b";
  static constexpr const char* kIdea = "a03a with one barrier for each tile of K instead of two";
  static constexpr int kBarriers = 1;
};

struct A04 : A03b {
  static constexpr const char* kName = "sm80/a04";
  static constexpr const char* kIdea =
      "a03b with fragments loaded one step ahead, across tiles too";
  static constexpr bool kPipelineFragments = true;
};

struct A05 : A04 {
  static constexpr const char* kName = "sm80/a05";
  static constexpr const char* kIdea = "a04 with blocks rasterised in groups for the L2 cache";
  static constexpr int kRasterGroup = 8;
};

// a05 with blocks half as high: what serves.
using A06 = copy_async::ServedStep;

}  // namespace gemmd::ampere_mma
