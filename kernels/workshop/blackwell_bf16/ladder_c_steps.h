// Ladder C: four steps from one thread an element to tcgen05 with TMA in both directions.
//
// One kernel family (ladder_c.h) reads these values; each step is the one that it derives from with
// one thing changed. A ladder of this shape was published for a B200; README.md has its figures.
#pragma once

namespace gemmd::blackwell_bf16 {

struct C1 {
  static constexpr const char* kName = "sm100/c1";
  static constexpr const char* kIdea = "one thread an element of D, straight from global memory";
  static constexpr int kTileM = 8;  // a thread each
  static constexpr int kTileN = 16;
  static constexpr int kTileK = 1;
  static constexpr bool kTensorCore = false;    // tcgen05, on tiles that TMA loads
  static constexpr bool kSwizzle = false;       // of 128 bytes; else core matrices one by one
  static constexpr bool kTensorStores = false;  // of D, by TMA
};

struct C2 : C1 {
  static constexpr const char* kName = "sm100/c2";
  static constexpr const char* kIdea =
      "tcgen05 on tiles of 64x64x64, which TMA loads by columns of core matrices, eight a tile";
  static constexpr int kTileM = 64;
  static constexpr int kTileN = 64;
  static constexpr int kTileK = 64;
  static constexpr bool kTensorCore = true;
};

struct C3 : C2 {
  static constexpr const char* kName = "sm100/c3";
  static constexpr const char* kIdea = "c2 with the swizzle of 128 bytes: one load a tile";
  static constexpr bool kSwizzle = true;
};

struct C4 : C3 {
  static constexpr const char* kName = "sm100/c4";
  static constexpr const char* kIdea = "c3 with D packed by stmatrix and stored by TMA";
  static constexpr bool kTensorStores = true;
};

}  // namespace gemmd::blackwell_bf16
