// The warps of a ladder D block that store D.
#pragma once

#include <cstdint>

#include "kernels/mma/issuer.h"
#include "kernels/ptx/barriers.h"
#include "kernels/ptx/cluster.h"
#include "kernels/ptx/convert.h"
#include "kernels/ptx/fences.h"
#include "kernels/ptx/global_memory.h"
#include "kernels/ptx/mbarrier.h"
#include "kernels/ptx/platform.h"
#include "kernels/ptx/shared_memory.h"
#include "kernels/ptx/tcgen05.h"
#include "kernels/ptx/tensor_copy.h"
#include "kernels/workshop/blackwell_mxfp8/ladder_d_tiles.h"
#include "kernels/workshop/blackwell_mxfp8/phases.h"

namespace gemmd::blackwell_mxfp8 {
inline namespace GEMMD_BACKEND {

// One thread's part. It has a row of the block's half of the tile: its lane of tensor memory.
template <class Step, bool kTensorStores>
class LadderDStores {
 public:
  GEMMD_DEVICE LadderDStores(const LadderDParams& params, const PairPlace& place)
      : params_(params),
        place_(place),
        thread_(ptx::ThreadIndex()),
        own_free_(place.shared + Layout::kOwnFree, 0),
        summed_(place.shared + Layout::kSummed, 0) {}

  GEMMD_DEVICE void Run() {
    if constexpr (kHasTensorScales) {
      a_tensor_scale_ = ptx::LoadGlobal(params_.a_tensor_scale);
      b_tensor_scale_ = ptx::LoadGlobal(params_.b_tensor_scale);
    }
    for (PairTiles<Step> tiles(params_, place_); !tiles.Done(); tiles.Next()) {
      ptx::MbarrierWait(summed_.address(), summed_.parity());
      ptx::Tcgen05FenceAfter();
      StoreTile(tiles.Get());
      summed_.Next();
      own_free_.Next();
    }
    if constexpr (kTensorStores) {
      if (StoresBoxes()) ptx::BulkWaitRead<0>();
    }
    ptx::Tcgen05FenceBefore();
  }

 private:
  using Layout = LadderDLayout<Step, kTensorStores>;
  static constexpr int kStoringThreads = 32 * kStoringWarps;
  static constexpr std::uint32_t kStoring = 1;  // named barrier
  static constexpr int kOwnColumns = Step::kTileN - Step::kOverlap;
  static constexpr bool kHasTensorScales = Step::kFormat == ScaledFormat::kNvfp4;
  static_assert(kOwnColumns % Step::kLoadColumns == 0 && Step::kOverlap % Step::kLoadColumns == 0);

  // Stores the columns that both accumulators share first: the next tile's products wait for them
  // alone. Half a tile lies in its accumulator's own columns, and no tile follows it.
  GEMMD_DEVICE void StoreTile(const PairTile& tile) {
    if constexpr (Step::kOverlap > 0) {
      const bool is_second = summed_.index() != 0;
      if constexpr (Step::kHalvesTail) {
        static_assert(kOwnColumns == Step::kTileN / 2);
        if (tile.is_half) {
          const std::int32_t own = is_second ? Step::kOverlap : 0;
          StorePart<kOwnColumns, false>({tile.row, tile.column - own, true}, own, 0);
          return;
        }
      }
      const ptx::SharedAddress free = place_.shared + Layout::kSharedFree;
      StorePart<Step::kOverlap, true>(tile, is_second ? 0 : kOwnColumns, free);
      StorePart<kOwnColumns, false>(tile, is_second ? Step::kOverlap : 0, free);
    } else {
      StorePart<kOwnColumns, true>(tile, 0, own_free_.address());
    }
  }

  // Stores kPartColumns columns of the tile from `first` on. With kGivesBack, gives back their
  // tensor memory once they are loaded.
  template <int kPartColumns, bool kGivesBack>
  GEMMD_DEVICE void StorePart(const PairTile& tile, std::uint32_t first, ptx::SharedAddress free) {
    const ptx::TensorAddress from = place_.tensor + summed_.index() * Layout::kSecond + first +
                                    ptx::TensorLane(thread_ / 32 * 32);
    for (int column = 0; column < kPartColumns; column += Step::kLoadColumns) {
      std::uint32_t sums[Step::kLoadColumns];
      ptx::Tcgen05Load32x32b(sums, from + column);
      ptx::Tcgen05WaitLoad();
      if (kGivesBack && column + Step::kLoadColumns == kPartColumns) GiveBack(free);
      ScaleSums(sums);
      StoreColumns(tile, first + column, sums);
    }
  }

  // Multiplies sums by the scales of the tensors in f32, A's first.
  GEMMD_DEVICE void ScaleSums(std::uint32_t (&sums)[Step::kLoadColumns]) const {
    if constexpr (kHasTensorScales) {
      GEMMD_UNROLL
      for (int i = 0; i < Step::kLoadColumns; ++i) {
        sums[i] = ptx::BitsOfFloat(ptx::FloatOfBits(sums[i]) * a_tensor_scale_ * b_tensor_scale_);
      }
    }
  }

  // A lane for each warp of both blocks tells the thread that multiplies.
  GEMMD_DEVICE void GiveBack(ptx::SharedAddress free) const {
    ptx::Tcgen05FenceBefore();
    ptx::SyncWarp();
    if (thread_ % 32 == 0) ptx::MbarrierArriveRemote(ptx::MapShared(free, 0));
  }

  GEMMD_DEVICE void StoreColumns(const PairTile& tile, std::uint32_t first,
                                 const std::uint32_t (&sums)[Step::kLoadColumns]) {
    const std::int32_t row = tile.row + static_cast<std::int32_t>(place_.rank * Layout::kALines);
    const std::int32_t column = tile.column + static_cast<std::int32_t>(first);
    if constexpr (kTensorStores) {
      StoreBoxes(row, column, sums);
    } else {
      StoreRow(row + static_cast<std::int32_t>(thread_), column, sums);
    }
  }

  // ---------------------------------------------------------- by threads

  GEMMD_DEVICE void StoreRow(std::int32_t row, std::int32_t column,
                             const std::uint32_t (&sums)[Step::kLoadColumns]) const {
    if (row >= params_.m) return;
    float* to = params_.d + row * params_.ldd + column;
    if constexpr (Step::kTestsOnce) {
      if (params_.is_aligned && column + Step::kLoadColumns <= params_.n) {
        GEMMD_UNROLL
        for (int i = 0; i < Step::kLoadColumns; i += Step::kStoreFloats)
          StoreWide(to + i, &sums[i]);
        return;
      }
    }
    GEMMD_UNROLL
    for (int i = 0; i < Step::kLoadColumns; i += Step::kStoreFloats) {
      if (params_.is_aligned && column + i + Step::kStoreFloats <= params_.n) {
        StoreWide(to + i, &sums[i]);
        continue;
      }
      GEMMD_UNROLL
      for (int j = i; j < i + Step::kStoreFloats; ++j) {
        if (column + j < params_.n) ptx::StoreGlobal(to + j, ptx::FloatOfBits(sums[j]));
      }
    }
  }

  static GEMMD_DEVICE void StoreWide(float* to, const std::uint32_t* sums) {
    if constexpr (Step::kStoreFloats == 8) {
      float values[8];
      GEMMD_UNROLL
      for (int i = 0; i < 8; ++i) values[i] = ptx::FloatOfBits(sums[i]);
      ptx::StoreGlobal8<Step::kHint>(to, values);
    } else {
      static_assert(Step::kStoreFloats == 4 && Step::kHint == ptx::StoreHint::kNone);
      ptx::StoreGlobal(reinterpret_cast<ptx::Vector4*>(to),
                       ptx::Vector4{sums[0], sums[1], sums[2], sums[3]});
    }
  }

  // ---------------------------------------------------------- by TMA

  // One thread: groups of stores are its own. elect.sync chooses the same lane each time.
  GEMMD_DEVICE bool StoresBoxes() const {
    return thread_ / 32 == 0 && mma::IsIssuer<Step::kElects>();
  }

  // Boxes of columns through one buffer, which TMA has read before threads write it again, or
  // through two in turn: while TMA reads one, threads write the other.
  GEMMD_DEVICE void StoreBoxes(std::int32_t row, std::int32_t column,
                               const std::uint32_t (&sums)[Step::kLoadColumns]) {
    GEMMD_UNROLL
    for (int first = 0; first < Step::kLoadColumns; first += Layout::kBoxColumns) {
      const ptx::SharedAddress box = place_.shared + Layout::kBox + box_ * Layout::kBoxBytes;
      if (StoresBoxes()) ptx::BulkWaitRead<Layout::kBoxes - 1>();
      ptx::NamedBarrierSync(kStoring, kStoringThreads);
      constexpr std::uint32_t kChunks = Layout::kBoxChunks;
      GEMMD_UNROLL
      for (std::uint32_t chunk = 0; chunk < kChunks; ++chunk) {
        const std::uint32_t* const from = &sums[first + 4 * chunk];
        const std::uint32_t place = chunk ^ thread_ * kChunks / 8 % kChunks;
        ptx::StoreShared(box + (thread_ * kChunks + place) * 16,
                         ptx::Vector4{from[0], from[1], from[2], from[3]});
      }
      ptx::FenceProxyAsync();
      ptx::NamedBarrierSync(kStoring, kStoringThreads);
      if (StoresBoxes()) {
        ptx::TensorStore2D(&params_.stored, box, column + first, row);
        ptx::BulkCommit();
      }
      if constexpr (Layout::kBoxes > 1) box_ ^= 1;
    }
  }

  const LadderDParams& params_;
  const PairPlace& place_;
  const std::uint32_t thread_;
  Phases<2, Step::kIndexesArrays> own_free_;
  Phases<2, Step::kIndexesArrays> summed_;
  std::uint32_t box_ = 0;
  float a_tensor_scale_ = 1;
  float b_tensor_scale_ = 1;
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::blackwell_mxfp8
