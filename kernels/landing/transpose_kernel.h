// The kernel behind transpose.h: one block moves a tile of 64 x 64 squares through shared
// memory.
//
// A square is one word wide and as high: 4 x 4 elements of 1 byte, 2 x 2 of 2 bytes, one
// of 4 or 8. A thread loads a square as words of the source, transposes it in registers
// and stores words of the destination, so that both sides of global memory move 256
// bytes of a line at once (128 were a third slower on an H200). A row of shared memory holds the
// words of one destination line; its pitch of 65 words puts neighbours of either direction into
// different banks.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/ptx/barriers.h"
#include "kernels/ptx/global_memory.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/platform.h"
#include "kernels/ptx/shared_memory.h"

namespace gemmd::landing {

inline constexpr int kTransposeThreads = 512;
inline constexpr int kTileSquares = 64;                          // in each direction
inline constexpr std::uint32_t kSharedPitch = kTileSquares + 1;  // words

inline namespace GEMMD_BACKEND {

// The fields of Transposition, but leading dimensions are in words.
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

// The numbers that depend on the size of an element. A word holds kSide elements.
template <int kElementBytes>
struct TransposeShape {
  static constexpr int kSide = kElementBytes < 4 ? 4 / kElementBytes : 1;
  static constexpr int kElementBits = 8 * kElementBytes;
  // Loads of this many blocks are in flight on a multiprocessor: 64 KB or more where it holds them.
  static constexpr int kWanted = kElementBytes == 4 ? 4 : kElementBytes == 2 ? 3 : 2;
  static constexpr int kBlocks = std::min(kWanted, ptx::kMultiprocessorThreads / kTransposeThreads);
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
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(kTransposeThreads, TransposeShape<kElementBytes>::kBlocks)
    Transpose(GEMMD_GRID_CONSTANT const TransposeParams params) {
  using Shape = TransposeShape<kElementBytes>;
  using Word = typename TransposeWord<kElementBytes>::Type;
  constexpr int kSteps = kTileSquares * kTileSquares / kTransposeThreads;
  constexpr int kRowsPerStep = kTransposeThreads / kTileSquares;
  // Neighbouring threads take neighbouring squares, then the next row of squares.
  const auto across = static_cast<int>(ptx::ThreadIndex() % kTileSquares);
  const auto first_along = static_cast<int>(ptx::ThreadIndex() / kTileSquares);
  const std::uint32_t tile = ptx::BlockIndexX();
  const std::int64_t first_column = tile % params.tiles_along_columns * Shape::kTile;
  const std::int64_t first_row = tile / params.tiles_along_columns * Shape::kTile;
  const ptx::SharedAddress shared = ptx::SharedBase();
  // Where the word `i` of destination line `line * kSide + index` lies.
  const auto address = [shared](int index, int line, int i) {
    const auto word = static_cast<std::uint32_t>(index * kTileSquares + line) * kSharedPitch + i;
    return shared + word * static_cast<std::uint32_t>(sizeof(Word));
  };

  Word words[kSteps][Shape::kSide];
  GEMMD_UNROLL
  for (int step = 0; step < kSteps; ++step) {
    const std::int64_t row = first_row + (step * kRowsPerStep + first_along) * Shape::kSide;
    GEMMD_UNROLL
    for (int i = 0; i < Shape::kSide; ++i) {
      words[step][i] =
          LoadSourceWord<kElementBytes>(params, row + i, first_column + across * Shape::kSide);
    }
  }
  GEMMD_UNROLL
  for (int step = 0; step < kSteps; ++step) {
    GEMMD_UNROLL
    for (int i = 0; i < Shape::kSide; ++i) {
      ptx::StoreShared(address(i, across, step * kRowsPerStep + first_along),
                       Gather<kElementBytes, Word>(words[step], i));
    }
  }
  ptx::SyncThreads();
  GEMMD_UNROLL
  for (int step = 0; step < kSteps; ++step) {
    const int along = step * kRowsPerStep + first_along;
    GEMMD_UNROLL
    for (int i = 0; i < Shape::kSide; ++i) {
      const std::int64_t line = first_column + along * Shape::kSide + i;
      const std::int64_t element = first_row + across * Shape::kSide;
      if (line >= params.padded_rows || element >= params.padded_columns) continue;
      Word* to = static_cast<Word*>(params.to) + line * params.to_pitch + element / Shape::kSide;
      ptx::StoreGlobal(to, ptx::LoadShared<Word>(address(i, along, across)));
    }
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::landing
