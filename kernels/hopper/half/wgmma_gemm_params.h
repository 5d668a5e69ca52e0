// The parameters of a Hopper GEMM, in the kernel's frame (tilings.h).
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/numbers/types.h"
#include "kernels/hopper/common/raster.h"
#include "kernels/ptx/tensor_copy.h"

namespace gemmd::hopper::half {
inline namespace GEMMD_BACKEND {

// The operands that no launch ahead writes, so that they are loaded before the grid's turn. Where
// both are, only D waits for it.
enum class SettledOperands : std::uint8_t { kNone, kRows, kColumns, kBoth };

// Where one problem's planes are. Maps have three dimensions in a launch of a batch.
struct WgmmaOperands {
  ptx::TensorMap rows;     // rows x k
  ptx::TensorMap columns;  // columns x k
  ptx::TensorMap d;        // unused where `epilogue` of the kernel is on
  void* d_data;
  const void* c;     // null: none
  const void* bias;  // null: none
};

// The products of a launch: one; a batch of equal ones; or those of groups of rows (RowGroups).
enum class Products : std::uint8_t { kOne, kBatch, kGroups };

// The most problems of a batch in one launch whose planes lie anywhere, and the most groups. With
// them, the parameters stay within 32764 bytes and cost a launch little.
inline constexpr int kBatchCapacity = 32;
inline constexpr int kGroupCapacity = 1024;

// A group that has rows.
struct GroupRows {
  std::int32_t begin;
  std::int32_t end;
  std::uint32_t first_tile;  // its first row of clusters' tiles; the groups' follow each other
  std::int32_t product;      // of B and the bias
};

// A box of fewer rows than others, for tiles that have no more.
struct ShortBox {
  ptx::TensorMap rows;
  std::uint32_t lines;
};
inline constexpr int kShortBoxes = 2;

// Tiles are walked group by group, in a group in bands of rows, and in a band column by column.
struct GroupTable {
  std::uint32_t band;  // rows of tiles
  std::uint32_t short_boxes;
  ShortBox short_box[kShortBoxes];  // from the shortest
  std::uint32_t count;
  GroupRows rows[kGroupCapacity];  // in the order in which they are walked
};
struct NoGroups {};

// The planes of a batch's problems are the entries of `operands`, or lie at equal distances, and
// then entry 0 has maps of all. Groups have one entry, whose map of columns has all B.
template <Products kOf>
struct WgmmaParams : std::conditional_t<kOf == Products::kGroups, GroupTable, NoGroups> {
  static constexpr bool kIsBatch = kOf == Products::kBatch;
  static constexpr bool kIsGroups = kOf == Products::kGroups;
  static constexpr bool kIsOne = kOf == Products::kOne;

  WgmmaOperands operands[kIsBatch ? kBatchCapacity : 1];
  std::int64_t d_row_stride;  // elements
  std::int32_t m;             // rows
  std::int32_t n;             // columns
  std::int32_t k;
  std::int32_t k_step;  // of the maps' elements, in a block of K
  Raster raster;
  bool is_placed;             // clusters take tiles by their places in waves that are full
  ClusterPlaces places;       // a permutation of the grid's clusters
  std::uint32_t box_rows;     // lines of a K-major box of rows; fewer where m is small
  std::uint32_t stage_bytes;  // that the loads of a stage bring
  // Before the grid's turn:
  std::uint32_t prefetched;   // blocks of K that are asked into the L2
  std::uint32_t prefetchers;  // blocks of the grid, the first ones, that ask for them
  SettledOperands settled;
  std::int32_t ahead;  // blocks of K of the one settled operand that are loaded
  ptx::CachePolicy column_policy;

  // The batch: how many problems, and bytes from one to the next where distances are equal. Groups
  // count as one problem, and have a step of the bias.
  std::uint32_t problems;
  bool is_strided;
  bool stores_by_map;
  std::int64_t d_step;
  std::int64_t c_step;
  std::int64_t bias_step;

  // The epilogue, where the kernel has one.
  std::int64_t c_row_stride;
  std::int64_t c_column_stride;
  std::int64_t bias_row_step;  // 1: one element a row; 0: one a column
  std::int64_t bias_column_step;
  float alpha;
  float beta;
  Activation activation;
  bool writes_f32;
  bool writes_sums;  // f32, and nothing is to be applied
};

using WgmmaGemmParams = WgmmaParams<Products::kOne>;
using WgmmaBatchParams = WgmmaParams<Products::kBatch>;
using WgmmaGroupParams = WgmmaParams<Products::kGroups>;
static_assert(sizeof(WgmmaBatchParams) <= 32764 && sizeof(WgmmaGroupParams) <= 32764);

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::half
