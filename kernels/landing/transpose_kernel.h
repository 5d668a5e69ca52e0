// The kernel behind transpose.h: one block moves a tile of 32 x 32 squares through shared
// memory.
//
// A square is one word wide and as high: 4 x 4 elements of 1 byte, 2 x 2 of 2 bytes, one
// of 4 or 8. A thread loads a square as words of the source, transposes it in registers
// and stores words of the destination, so that both sides of global memory move 128 bytes
// a warp. A row of shared memory holds the words of one destination line; its pitch of 33
// words puts neighbours of either direction into different banks.
#pragma once

#include <cstdint>

#include "kernels/ptx/barriers.h"
#include "kernels/ptx/global_memory.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/platform.h"
#include "kernels/ptx/shared_memory.h"

namespace gemmd::landing {

inline constexpr int kTransposeThreads = 256;
inline constexpr int kTileSquares = 32;  // in each direction: lanes of a warp
inline constexpr std::uint32_t kSharedPitch = kTileSquares + 1;  // words

inline namespace GEMMD_BACKEND {

// As in Transposition, but leading dimensions are in words.
struct TransposeParams {
  const void* from;
  void* to;
  std::int64_t from_pitch;
  std::int64_t to_pitch;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t padded_rows;
  std::int64_t padded_columns;
  std::uint32_t tiles_along_columns;  // of the source; neighbouring blocks share its lines
};

// What differs between element sizes. A word holds kSide elements.
template <int kElementBytes>
struct TransposeShape {
  static constexpr int kSide = kElementBytes < 4 ? 4 / kElementBytes : 1;
  static constexpr int kElementBits = 8 * kElementBytes;
  static constexpr std::int64_t kTile = kTileSquares * kSide;  // elements, both directions
};

template <int kElementBytes>
struct TransposeWord {
  using Type = std::uint32_t;
};
template <>
struct TransposeWord<8> {
  using Type = std::uint64_t;
};

template <int kElementBytes>
constexpr std::uint32_t TransposeSharedBytes() {
  constexpr std::uint32_t kWordBytes = sizeof(typename TransposeWord<kElementBytes>::Type);
  return TransposeShape<kElementBytes>::kSide * kTileSquares * kSharedPitch * kWordBytes;
}

// The word of elements [column, column + kSide) of a source line; elements past the
// matrix are zero.
template <int kElementBytes>
GEMMD_DEVICE auto LoadSourceWord(const TransposeParams& params, std::int64_t row,
                                 std::int64_t column) {
  using Shape = TransposeShape<kElementBytes>;
  using Word = typename TransposeWord<kElementBytes>::Type;
  if (row >= params.rows || column >= params.columns) return Word{0};
  const Word* line = static_cast<const Word*>(params.from) + row * params.from_pitch;
  const Word word = ptx::LoadGlobal(line + column / Shape::kSide);
  if constexpr (Shape::kSide == 1) {
    return word;
  } else {
    const std::int64_t valid = params.columns - column;
    if (valid >= Shape::kSide) return word;
    return word & ((Word{1} << (static_cast<int>(valid) * Shape::kElementBits)) - 1);
  }
}

// Element `index` of each of the words, as one word.
template <int kElementBytes, typename Word>
GEMMD_DEVICE Word Gather(const Word (&words)[TransposeShape<kElementBytes>::kSide], int index) {
  using Shape = TransposeShape<kElementBytes>;
  if constexpr (Shape::kSide == 1) {
    static_cast<void>(index);
    return words[0];
  } else {
    constexpr Word kMask = (Word{1} << Shape::kElementBits) - 1;
    Word gathered = 0;
    GEMMD_UNROLL
    for (int i = 0; i < Shape::kSide; ++i) {
      gathered |= ((words[i] >> (index * Shape::kElementBits)) & kMask)
                  << (i * Shape::kElementBits);
    }
    return gathered;
  }
}

template <int kElementBytes>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(kTransposeThreads, 4)
    Transpose(GEMMD_GRID_CONSTANT const TransposeParams params) {
  using Shape = TransposeShape<kElementBytes>;
  using Word = typename TransposeWord<kElementBytes>::Type;
  constexpr int kWarps = kTransposeThreads / 32;
  const auto lane = static_cast<int>(ptx::LaneIndex());
  const auto warp = static_cast<int>(ptx::ThreadIndex() / 32);
  const std::uint32_t tile = ptx::BlockIndexX();
  const std::int64_t first_column = tile % params.tiles_along_columns * Shape::kTile;
  const std::int64_t first_row = tile / params.tiles_along_columns * Shape::kTile;
  const ptx::SharedAddress shared = ptx::SharedBase();
  // Where the word `across` of destination line `along * kSide + index` lies.
  const auto address = [shared](int index, int along, int across) {
    const auto word =
        static_cast<std::uint32_t>((index * kTileSquares + along) * kSharedPitch + across);
    return shared + word * static_cast<std::uint32_t>(sizeof(Word));
  };

  Word words[kTileSquares / kWarps][Shape::kSide];
  GEMMD_UNROLL
  for (int step = 0; step < kTileSquares / kWarps; ++step) {
    GEMMD_UNROLL
    for (int i = 0; i < Shape::kSide; ++i) {
      words[step][i] = LoadSourceWord<kElementBytes>(
          params, first_row + (step * kWarps + warp) * Shape::kSide + i,
          first_column + lane * Shape::kSide);
    }
  }
  GEMMD_UNROLL
  for (int step = 0; step < kTileSquares / kWarps; ++step) {
    GEMMD_UNROLL
    for (int i = 0; i < Shape::kSide; ++i) {
      ptx::StoreShared(address(i, lane, step * kWarps + warp),
                       Gather<kElementBytes, Word>(words[step], i));
    }
  }
  ptx::SyncThreads();
  GEMMD_UNROLL
  for (int step = 0; step < kTileSquares / kWarps; ++step) {
    GEMMD_UNROLL
    for (int i = 0; i < Shape::kSide; ++i) {
      const int along = step * kWarps + warp;
      const std::int64_t line = first_column + along * Shape::kSide + i;
      const std::int64_t element = first_row + lane * Shape::kSide;
      if (line >= params.padded_rows || element >= params.padded_columns) continue;
      Word* to = static_cast<Word*>(params.to) + line * params.to_pitch + element / Shape::kSide;
      ptx::StoreGlobal(to, ptx::LoadShared<Word>(address(i, along, lane)));
    }
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::landing
