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
  static constexpr bool kElects = false;  // the thread that issues, by elect.sync, not by index
  static constexpr int kColumns = 64;     // of tensor memory
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

// The tile that the published rates of c2 to c4 belong to, in all of tensor memory: one block a
// multiprocessor.
template <class Step>
struct Wide : Step {
  static constexpr int kTileN = 256;
  static constexpr int kColumns = 512;
};

struct C2Wide : Wide<C2> {
  static constexpr const char* kName = "sm100/c2_256";
  static constexpr const char* kIdea = "c2 with tiles of 64x256x64";
};

struct C3Wide : Wide<C3> {
  static constexpr const char* kName = "sm100/c3_256";
  static constexpr const char* kIdea = "c3 with tiles of 64x256x64";
};

struct C4Wide : Wide<C4> {
  static constexpr const char* kName = "sm100/c4_256";
  static constexpr const char* kIdea = "c4 with tiles of 64x256x64";
};

struct C4Elected : C4 {
  static constexpr const char* kName = "sm100/c4_elected";
  static constexpr const char* kIdea = "c4 with the thread that issues chosen by elect.sync";
  static constexpr bool kElects = true;
};

}  // namespace gemmd::blackwell_bf16
