// D of plain products: from accumulators through staged boxes to TMA, in D's 16-bit type.
#pragma once

#include "kernels/hopper/half/wgmma_pipeline.h"
#include "kernels/ptx/fences.h"
#include "kernels/ptx/global_memory.h"
#include "kernels/ptx/matrix_memory.h"
#include "kernels/ptx/shared_memory.h"

namespace gemmd::hopper::half {
inline namespace GEMMD_BACKEND {

template <class Layout>
using Accumulators = float[Layout::kRowBlocks][Layout::kTileN / 2];

// Stores a staged box that may not be stored in units of 16 bytes: D's lines start elsewhere, or
// the rest of its last unit is not ours. The box has `lines` lines of `length` elements and goes to
// `d`, whose lines are `pitch` elements apart; those from `line_end` and `column_end` on are left
// out. The caller is number `first` of `threads` threads.
template <bool kIsSwizzled>
GEMMD_DEVICE void StoreBoxByElement(ptx::SharedAddress box, std::uint16_t* d, std::int64_t pitch,
                                    std::int32_t lines, std::int32_t length, std::int32_t line_end,
                                    std::int32_t column_end, std::uint32_t first,
                                    std::uint32_t threads) {
  const std::int32_t words = length / 2;
  GEMMD_NO_UNROLL
  for (auto i = static_cast<std::int32_t>(first); i < lines * words;
       i += static_cast<std::int32_t>(threads)) {
    const std::int32_t line = i / words;
    const std::int32_t word = i - line * words;
    if (line >= line_end) break;
    const std::int32_t chunk = kIsSwizzled ? (word / 4) ^ (line % 8) : word / 4;
    const auto value = ptx::LoadShared<std::uint32_t>(
        box + static_cast<std::uint32_t>(line * length * 2 + chunk * 16 + word % 4 * 4));
    std::uint16_t* const to = d + line * pitch + word * 2;
    const bool is_whole = word * 2 + 1 < column_end;
    if (is_whole && reinterpret_cast<std::uint64_t>(to) % 4 == 0) {
      ptx::StoreGlobal(reinterpret_cast<std::uint32_t*>(to), value);
      continue;
    }
    if (word * 2 < column_end) ptx::StoreGlobal(to, static_cast<std::uint16_t>(value));
    if (is_whole) ptx::StoreGlobal(to + 1, static_cast<std::uint16_t>(value >> 16));
  }
}

// Stores a staged box by its own warp, in units of 16 bytes, at which D's lines start: a shorter
// way than TMA's for a tile that leaves at the end of a short launch. Where `column_end` lies
// within a unit, each line's part of that unit is written by element.
template <class Layout>
GEMMD_DEVICE void StoreBoxByUnit(ptx::SharedAddress box, std::uint16_t* d, std::int64_t pitch,
                                 std::int32_t line_end, std::int32_t column_end,
                                 std::uint32_t lane) {
  constexpr std::uint32_t kUnits = Layout::kBoxColumns / 8;  // of a line
  constexpr std::uint32_t kLinesAtOnce = 32 / kUnits;
  static_assert(32 % kUnits == 0 && 16 % kLinesAtOnce == 0);
  const std::uint32_t unit = lane % kUnits;
  ptx::Vector4 values[16 / kLinesAtOnce];
  GEMMD_UNROLL
  for (std::uint32_t i = 0; i < 16 / kLinesAtOnce; ++i) {
    const std::uint32_t line = i * kLinesAtOnce + lane / kUnits;
    const std::uint32_t chunk = Layout::kIsBoxSwizzled ? unit ^ (line % 8) : unit;
    values[i] = ptx::LoadShared<ptx::Vector4>(box + line * (kUnits * 16) + chunk * 16);
  }
  GEMMD_UNROLL
  for (std::uint32_t i = 0; i < 16 / kLinesAtOnce; ++i) {
    const auto line = static_cast<std::int32_t>(i * kLinesAtOnce + lane / kUnits);
    if (line < line_end && static_cast<std::int32_t>(unit) * 8 + 8 <= column_end) {
      ptx::StoreGlobal(reinterpret_cast<ptx::Vector4*>(d + line * pitch + unit * 8), values[i]);
    }
  }
  const auto line = static_cast<std::int32_t>(lane);
  if (column_end % 8 == 0 || column_end > Layout::kBoxColumns || line >= line_end || line >= 16) {
    return;
  }
  const auto last = static_cast<std::uint32_t>(column_end) / 8;
  const std::uint32_t chunk = Layout::kIsBoxSwizzled ? last ^ (lane % 8) : last;
  GEMMD_NO_UNROLL
  for (std::int32_t column = column_end / 8 * 8; column < column_end; ++column) {
    ptx::StoreGlobal(d + line * pitch + column,
                     ptx::LoadShared<std::uint16_t>(box + lane * (kUnits * 16) + chunk * 16 +
                                                    static_cast<std::uint32_t>(column % 8) * 2));
  }
}

template <class Params>
GEMMD_DEVICE void* DataOfD(const Params& params, const TileCorner& corner) {
  void* const d = OperandsOf(params, corner).d_data;
  if constexpr (!Params::kIsBatch) return d;
  return static_cast<char*>(d) + DepthOf(params, corner) * params.d_step;
}

// Stores the group's rows of a tile, box by box, each warp for itself: 16 rows of kBoxColumns.
// `drained` (kReusesStages) is where the group's rows of A lie in the first stage, free from now
// on.
template <class Layout, class Element, class Params>
GEMMD_DEVICE void StoreTile(const Params& params, const Consumer& me, Accumulators<Layout>& sums,
                            ptx::SharedAddress output, ptx::SharedAddress drained, bool is_last,
                            TileCorner corner) {
  constexpr int kPitch = Layout::kBoxColumns * 2;
  const std::uint32_t row = me.lane % 16;
  const std::uint32_t high = me.lane / 16;
  const bool is_ragged = params.n % 8 != 0;
  bool is_unaligned = false;  // what units do not fit
  if constexpr (Layout::kStoresByUnit) {
    is_unaligned = (reinterpret_cast<std::uint64_t>(DataOfD(params, corner)) |
                    static_cast<std::uint64_t>(params.d_row_stride * 2)) %
                       16 !=
                   0;
  }
  if constexpr (Layout::kReusesStages) {
    // The group's other warps may still be reading those rows.
    if (is_last) ptx::NamedBarrierSync(kGroupBarrier + me.group, kWarpgroup);
  }
  GEMMD_UNROLL
  for (int i = 0; i < Layout::kRowBlocks; ++i) {
    GEMMD_UNROLL
    for (int c = 0; c < Layout::kBoxes; ++c) {
      const bool in_stage = Layout::kReusesStages && is_last;
      const int buffer = (i * Layout::kBoxes + c) % Layout::kStoreBuffers;
      const ptx::SharedAddress box =
          (in_stage ? drained + c * Layout::kStageBytes + i * kRowBlockBytes
                    : output + buffer * Layout::kBoxBytes) +
          me.warp * Layout::kWarpBoxBytes;
      if (!in_stage && !Layout::kStoresByUnit) {
        if (me.lane == 0) ptx::BulkWaitRead<Layout::kStoreBuffers - 1>();
        ptx::SyncWarp();
      }
      GEMMD_UNROLL
      for (int j = 0; j + 2 <= Layout::kBoxColumns / 8; j += 2) {
        const float* v = &sums[i][(c * (Layout::kBoxColumns / 8) + j) * 4];
        const std::uint32_t words[4] = {Element::Pack(v[0], v[1]), Element::Pack(v[2], v[3]),
                                        Element::Pack(v[4], v[5]), Element::Pack(v[6], v[7])};
        const std::uint32_t chunk = j + high;
        ptx::StoreMatrix4(
            box + row * kPitch + (Layout::kIsBoxSwizzled ? chunk ^ (row % 8) : chunk) * 16, words);
      }
      if constexpr (Layout::kBoxColumns % 16 == 8) {
        constexpr int kLast = Layout::kBoxColumns / 8 - 1;
        const float* v = &sums[i][(c * (Layout::kBoxColumns / 8) + kLast) * 4];
        const std::uint32_t words[2] = {Element::Pack(v[0], v[1]), Element::Pack(v[2], v[3])};
        ptx::StoreMatrix2(box + row * kPitch + kLast * 16, words);
      }
      const std::int32_t first_row = corner.m + i * 64 + static_cast<std::int32_t>(me.warp) * 16;
      const std::int32_t first_column = corner.n + c * Layout::kBoxColumns;
      const bool is_inside = first_row < corner.m_end && first_column < params.n;
      if constexpr (!Layout::kStoresByUnit) ptx::FenceProxyAsync();
      ptx::SyncWarp();
      const bool has_last_unit =
          !Layout::kStoresByUnit && is_ragged && first_column + Layout::kBoxColumns > params.n;
      // TMA would write the next group's rows.
      const bool has_next_rows =
          !Layout::kStoresByUnit && Params::kIsGroups && first_row + 16 > corner.m_end;
      if (is_inside && (has_last_unit || is_unaligned || has_next_rows)) {
        StoreBoxByElement<Layout::kIsBoxSwizzled>(
            box,
            static_cast<std::uint16_t*>(DataOfD(params, corner)) + first_row * params.d_row_stride +
                first_column,
            params.d_row_stride, 16, Layout::kBoxColumns, corner.m_end - first_row,
            params.n - first_column, me.lane, 32);
      } else if constexpr (Layout::kStoresByUnit) {
        if (is_inside) {
          StoreBoxByUnit<Layout>(box,
                                 static_cast<std::uint16_t*>(DataOfD(params, corner)) +
                                     first_row * params.d_row_stride + first_column,
                                 params.d_row_stride, corner.m_end - first_row,
                                 params.n - first_column, me.lane);
        }
      } else if (is_inside && me.lane == 0) {
        const ptx::TensorMap* const map = &OperandsOf(params, corner).d;
        if constexpr (Params::kIsBatch) {
          ptx::TensorStore3D(map, box, first_column, first_row, DepthOf(params, corner));
        } else {
          ptx::TensorStore2D(map, box, first_column, first_row);
        }
      }
      if constexpr (!Layout::kStoresByUnit) {
        if (me.lane == 0) ptx::BulkCommit();
      }
      ptx::SyncWarp();
    }
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::half
