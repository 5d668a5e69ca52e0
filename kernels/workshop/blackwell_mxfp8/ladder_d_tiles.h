// The tiles of D that a pair of blocks takes, and its place, which all warps of a block share.
#pragma once

#include <cstdint>

#include "kernels/mma/tile_order.h"
#include "kernels/ptx/cluster.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/platform.h"
#include "kernels/ptx/shared_memory.h"
#include "kernels/ptx/tcgen05.h"
#include "kernels/workshop/blackwell_mxfp8/ladder_d_params.h"

namespace gemmd::blackwell_mxfp8 {
inline namespace GEMMD_BACKEND {

struct PairPlace {
  std::uint32_t rank;  // of the block in its pair
  std::uint32_t pair;  // of the grid
  std::uint32_t pairs;
  ptx::SharedAddress shared;
  ptx::TensorAddress tensor;  // allocated columns
};

// A tile of D by its first element.
struct PairTile {
  std::int32_t row;
  std::int32_t column;
  bool is_half;  // kTileN / 2 columns
};

// Walks over a pair's tiles: every `pairs`th of them, in the order that the launch chose; first
// whole ones, then at most one half, since halves fit one wave.
template <class Step>
class PairTiles {
 public:
  GEMMD_DEVICE PairTiles(const LadderDParams& params, const PairPlace& place)
      : params_(params), index_(place.pair), pairs_(place.pairs) {}

  GEMMD_DEVICE bool Done() const {
    const std::uint32_t tiles = params_.tiles_m * params_.tiles_n;
    if constexpr (Step::kHalvesTail) return index_ >= 2 * tiles - params_.whole_tiles;
    return index_ >= tiles;
  }
  GEMMD_DEVICE void Next() { index_ += pairs_; }
  GEMMD_DEVICE PairTile Get() const {
    std::uint32_t whole = index_;
    std::int32_t shift = 0;
    bool is_half = false;
    if constexpr (Step::kHalvesTail) {
      is_half = index_ >= params_.whole_tiles;
      if (is_half) {
        const std::uint32_t half = index_ - params_.whole_tiles;
        whole = params_.whole_tiles + half / 2;
        shift = half % 2 == 0 ? 0 : Step::kTileN / 2;
      }
    }
    const mma::TilePlace place = Place(whole);
    return {place.row * Step::kTileM, place.column * Step::kTileN + shift, is_half};
  }

 private:
  GEMMD_DEVICE mma::TilePlace Place(std::uint32_t whole) const {
    const auto rows = static_cast<std::int32_t>(params_.tiles_m);
    const auto columns = static_cast<std::int32_t>(params_.tiles_n);
    const auto at = static_cast<std::int32_t>(whole);
    if (params_.is_hilbert) return mma::GeneralHilbertTile(at, rows, columns);
    return {at / columns, at % columns};
  }

  const LadderDParams& params_;
  std::uint32_t index_;
  const std::uint32_t pairs_;
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::blackwell_mxfp8
