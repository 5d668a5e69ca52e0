// Ladder D: MXFP8 on pairs of blocks, from a persistent kernel with specialised warps to one that
// chooses how it stores D.
//
// One kernel family (ladder_d.h) reads these values; each step is the one that it derives from with
// one thing changed. A ladder of this shape was published for a B200; README.md has its figures.
#pragma once

#include <cstdint>

#include "kernels/ptx/global_memory.h"

namespace gemmd::blackwell_mxfp8 {

// The order in which pairs of blocks take tiles of D.
enum class TileOrder : std::uint8_t {
  kRows,          // along rows of tiles
  kHilbert,       // along a Hilbert curve, where the grid is a square of a power of two
  kLargeHilbert,  // the same where no dimension is below kLargeFrom
  kAnyHilbert,    // along the generalised curve, on any grid
};

enum class StoreWay : std::uint8_t {
  kThreads,  // each thread stores its row
  kTensor,   // through shared memory, by TMA
  kBySize,   // kTensor where no dimension is below kLargeFrom
};

// The elements of A and B and the blocks of K that share a scale.
enum class ScaledFormat : std::uint8_t {
  kMxfp8,  // e4m3 and e5m2, an E8M0 scale for 32 of K
  kMxfp4,  // e2m1, an E8M0 scale for 32 of K
  kNvfp4,  // e2m1, an E4M3 scale for 16 of K, and one of f32 for all of an operand
};

struct D0 {
  static constexpr const char* kName = "sm100/d0";
  static constexpr const char* kIdea =
      "MXFP8 on pairs: warps that load, multiply or store, tiles of 256x128x128, two accumulators";
  static constexpr ScaledFormat kFormat = ScaledFormat::kMxfp8;
  static constexpr int kTileM = 256;  // of a pair
  static constexpr int kTileN = 128;
  static constexpr int kTileK = 128;
  static constexpr int kOverlap = 0;             // columns that both accumulators share
  static constexpr int kLoadColumns = 4;         // of tensor memory, by one instruction
  static constexpr int kStoreFloats = 4;         // by one instruction of a thread
  static constexpr bool kSharesBScales = false;  // one block loads them for both
  static constexpr bool kIndexesArrays = true;   // mbarriers and parities, at run time
  static constexpr TileOrder kOrder = TileOrder::kRows;
  static constexpr ptx::StoreHint kHint = ptx::StoreHint::kNone;
  static constexpr StoreWay kStores = StoreWay::kThreads;
  static constexpr int kBoxes = 1;        // buffers in shared memory of D's that TMA stores
  static constexpr int kBoxColumns = 32;  // of each
  static constexpr int kLargeFrom = 8192;
  static constexpr bool kHalvesTail = false;  // tiles of the last wave in two, where that pays
  static constexpr bool kElects = false;      // threads that issue, by elect.sync, not by index
  static constexpr int kScaleLine = 16;       // bytes of a line of scales' boxes
  static constexpr bool kTestsOnce = false;   // whether D ends, for all columns that a thread loads
};

struct D1 : D0 {
  static constexpr const char* kName = "sm100/d1";
  static constexpr const char* kIdea =
      "d0 with tiles of 256x256, whose accumulators share 128 columns of tensor memory";
  static constexpr int kTileN = 256;
  static constexpr int kOverlap = 128;
  static constexpr int kLoadColumns = 128;
};

struct D2 : D1 {
  static constexpr const char* kName = "sm100/d2";
  static constexpr const char* kIdea = "d1 with stores of 32 bytes";
  static constexpr int kStoreFloats = 8;
};

struct D3 : D2 {
  static constexpr const char* kName = "sm100/d3";
  static constexpr const char* kIdea = "d2 with 256 of K a stage";
  static constexpr int kTileK = 256;
};

struct D4 : D3 {
  static constexpr const char* kName = "sm100/d4";
  static constexpr const char* kIdea = "d3 with B's scales loaded once for both blocks";
  static constexpr bool kSharesBScales = true;
};

struct D5 : D4 {
  static constexpr const char* kName = "sm100/d5";
  static constexpr const char* kIdea = "d4 without arrays that an index reads at run time";
  static constexpr bool kIndexesArrays = false;
};

struct D6 : D5 {
  static constexpr const char* kName = "sm100/d6";
  static constexpr const char* kIdea = "d5 with tiles in the order of a Hilbert curve";
  static constexpr TileOrder kOrder = TileOrder::kHilbert;
};

struct D7 : D6 {
  static constexpr const char* kName = "sm100/d7";
  static constexpr const char* kIdea = "d6 with stores that take no place in the L1";
  static constexpr ptx::StoreHint kHint = ptx::StoreHint::kNoAllocate;
};

struct D8 : D7 {
  static constexpr const char* kName = "sm100/d8";
  static constexpr const char* kIdea = "d7 with the curve for large products alone";
  static constexpr TileOrder kOrder = TileOrder::kLargeHilbert;
};

struct D9 : D8 {
  static constexpr const char* kName = "sm100/d9";
  static constexpr const char* kIdea = "d8 with D stored by TMA from a buffer of 16 KB";
  static constexpr StoreWay kStores = StoreWay::kTensor;
};

struct D10 : D9 {
  static constexpr const char* kName = "sm100/d10";
  static constexpr const char* kIdea = "d8's stores for small products, d9's for large ones";
  static constexpr StoreWay kStores = StoreWay::kBySize;
};

struct D11 : D10 {
  static constexpr const char* kName = "sm100/d11";
  static constexpr const char* kIdea = "d10 with accumulators that share 64 columns";
  static constexpr int kOverlap = 64;
  static constexpr int kLoadColumns = 64;
};

// Experiments beside the ladder: to be timed on a card, by their names.

struct D7EvictFirst : D7 {
  static constexpr const char* kName = "sm100/d7_evict_first";
  static constexpr const char* kIdea = "d7 with stores that the L2 evicts first";
  static constexpr ptx::StoreHint kHint = ptx::StoreHint::kEvictFirst;
};

struct D7AnyHilbert : D7 {
  static constexpr const char* kName = "sm100/d7_any_hilbert";
  static constexpr const char* kIdea = "d7 with the generalised curve, on any grid";
  static constexpr TileOrder kOrder = TileOrder::kAnyHilbert;
};

// Two buffers of half the size take no more room than d9's one, and threads write one of them while
// TMA reads the other.
struct D9Boxes : D9 {
  static constexpr const char* kName = "sm100/d9_boxes";
  static constexpr const char* kIdea = "d9 with two buffers of 8 KB";
  static constexpr int kBoxes = 2;
  static constexpr int kBoxColumns = 16;
};

// d11 for elements of 4 bits: 256 of K in 128 bytes. Tiles of K are half as long in bytes, since
// 256 bytes of it have 48 columns of scales, and 64 are left.
struct D11Mxfp4 : D11 {
  static constexpr const char* kName = "sm100/d11_mxfp4";
  static constexpr const char* kIdea = "d11 for mxfp4: kind::mxf4, twice as deep";
  static constexpr ScaledFormat kFormat = ScaledFormat::kMxfp4;
};

// Scales of 16 of K take 48 columns for 128 bytes: with 64 shared columns there is room for one
// slot, with 128 for two.
struct D11Nvfp4 : D11Mxfp4 {
  static constexpr const char* kName = "sm100/d11_nvfp4";
  static constexpr const char* kIdea =
      "d11 for nvfp4: kind::mxf4nvf4; its scales want the columns, so accumulators share 128";
  static constexpr ScaledFormat kFormat = ScaledFormat::kNvfp4;
  static constexpr int kOverlap = 128;
};

struct D12 : D10 {
  static constexpr const char* kName = "sm100/d12";
  static constexpr const char* kIdea =
      "d10 with the last wave in tiles of 256x128, where one wave holds them";
  static constexpr bool kHalvesTail = true;
};

struct D13 : D12 {
  static constexpr const char* kName = "sm100/d13";
  static constexpr const char* kIdea = "d12 with the threads that issue chosen by elect.sync";
  static constexpr bool kElects = true;
};

struct D14 : D13 {
  static constexpr const char* kName = "sm100/d14";
  static constexpr const char* kIdea = "d13 with scales loaded by lines of 128 bytes";
  static constexpr int kScaleLine = 128;
};

struct D15 : D14 {
  static constexpr const char* kName = "sm100/d15";
  static constexpr const char* kIdea =
      "d14 with one test of D's edge for 128 columns, not for each 8";
  static constexpr bool kTestsOnce = true;
};

// Returns how many of the tiles d12 leaves whole: all, unless at least half of the pairs would have
// no tile of the last wave. The tiles of such a wave are cut in two, so that it takes half the
// products' time. 4096 cubed on 74 pairs: 256 tiles of 256x256 are 3 waves and 34 tiles, run as 4
// waves; cut in two, the 34 are 68 halves, and all runs as 3.5. The arithmetic is the model's
// (docs/lab/mxfp8-schedule.md).
constexpr std::int64_t WholeTiles(std::int64_t tiles, std::int64_t pairs) {
  const std::int64_t rest = tiles % pairs;
  return 2 * rest <= pairs ? tiles - rest : tiles;
}

}  // namespace gemmd::blackwell_mxfp8
