// Ladder A: eight steps from fragment loads by hand to a rasterised software pipeline.
//
// One kernel family (ladder_a.h) reads these values; each step is the one before it with
// one thing changed. A ladder of this shape was published for an A100, up to a05; README.md has
// its figures beside ours.
#pragma once

namespace gemmd::ampere_mma {

enum class FragmentLoad : unsigned char {
  kByElement,  // ld.shared of 16 bits, one for every element
  kByMatrix,   // ldmatrix
};

struct A01a {
  static constexpr const char* kName = "sm80/a01a";
  static constexpr const char* kIdea = "mma.sync fed element by element from shared memory";
  static constexpr FragmentLoad kFragmentLoad = FragmentLoad::kByElement;
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
  static constexpr FragmentLoad kFragmentLoad = FragmentLoad::kByMatrix;
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

struct A06 : A05 {
  static constexpr const char* kName = "sm80/a06";
  static constexpr const char* kIdea =
      "a05 with blocks half as high, two a multiprocessor: one's barrier is the other's time";
  static constexpr int kTileM = 128;
  static constexpr int kWarpsM = 2;
  static constexpr int kBlocksPerMultiprocessor = 2;
};

}  // namespace gemmd::ampere_mma
