// The tiles of D that a pair of blocks takes, and its place, which all warps of a block share.
#pragma once

#include <cstdint>

#include "kernels/mma/tile_order.h"
#include "kernels/ptx/cluster.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/platform.h"
#include "kernels/ptx/shared_memory.h"
#include "kernels/ptx/tcgen05.h"
#include "kernels/sm100/ladder_d_params.h"

namespace gemmd::sm100 {
inline namespace GEMMD_BACKEND {

struct PairPlace {
  std::uint32_t rank;  // of the block in its pair
  std::uint32_t pair;  // of the grid
  std::uint32_t pairs;
  ptx::SharedAddress shared;
  ptx::TensorAddress tensor;  // allocated columns
};

// Walks over a pair's tiles: every `pairs`th of them, in the order that the launch chose.
class PairTiles {
 public:
  GEMMD_DEVICE PairTiles(const LadderDParams& params, const PairPlace& place)
      : params_(params), index_(place.pair), pairs_(place.pairs) {}

  GEMMD_DEVICE bool Done() const { return index_ >= params_.tiles_m * params_.tiles_n; }
  GEMMD_DEVICE void Next() { index_ += pairs_; }
  GEMMD_DEVICE mma::TilePlace Place() const {
    const auto rows = static_cast<std::int32_t>(params_.tiles_m);
    const auto columns = static_cast<std::int32_t>(params_.tiles_n);
    const auto at = static_cast<std::int32_t>(index_);
    if (params_.is_hilbert) return mma::GeneralHilbertTile(at, rows, columns);
    return {at / columns, at % columns};
  }

 private:
  const LadderDParams& params_;
  std::uint32_t index_;
  const std::uint32_t pairs_;
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::sm100
