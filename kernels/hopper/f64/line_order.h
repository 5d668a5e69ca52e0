// The line of an operand that a lane multiplies, and the places of the line's elements in a stage.
//
// An instruction's index 0 to 7 may stand for any of eight lines, as long as D's elements go by
// the same order. A lane loads 8 bytes, so that 16 lanes fill the banks: those of four indices by
// four of K, whose elements must lie in different places of a 128-byte line. Swizzling alone does
// not see to that, and these orders do. They also make the lines of one element of four lanes'
// accumulators neighbours, so that they fill a 32-byte sector of D.
#pragma once

#include "kernels/hopper/f64/layout.h"
#include "kernels/ptx/shared_memory.h"

namespace gemmd::hopper::f64 {
inline namespace GEMMD_BACKEND {

// Line of `index` in octet `octet`: Lane(index) + Octet(octet).
template <class Tile>
struct LineOrder {
  static GEMMD_DEVICE std::uint32_t Lane(std::uint32_t index) {
    if constexpr (Tile::kIsKMajor) {
      return index % 2 * 4 + index / 2 % 2 * 2 + index / 4;
    } else {
      return Tile::kIsNarrow ? index : index % 2 * 8 + index / 2;
    }
  }
  static GEMMD_DEVICE constexpr std::uint32_t Octet(std::uint32_t octet) {
    return Tile::kIsKMajor ? octet * 8 : octet / 2 * 16 + octet % 2 * 4;
  }
  // From an even index to the next one.
  static constexpr std::uint32_t kNext = Tile::kIsKMajor ? 4 : Tile::kIsNarrow ? 1 : 8;
};

// The elements that a lane loads of a warp's lines: index lane / 4, and lane % 4 of each 4 of K.
template <class Tile>
class LaneElements {
 public:
  // `first`: the warp's first line in the tile, a multiple of 8, or of 16 where MN-major.
  GEMMD_DEVICE LaneElements(std::uint32_t first, std::uint32_t lane) {
    const std::uint32_t line = LineOrder<Tile>::Lane(lane / 4);
    const std::uint32_t k = lane % 4;
    std::uint32_t place = 0;
    if constexpr (Tile::kIsKMajor) {
      place = (first + line) * kSpanBytes + ((k / 2) ^ line) * 16 + k % 2 * 8;
    } else {
      place =
          first / kSpan * Tile::kBoxBytes + k * kSpanBytes + ((line / 2) ^ k) * 16 + line % 2 * 8;
    }
    GEMMD_UNROLL
    for (std::uint32_t i = 0; i < 4; ++i) place_[i] = place ^ (i * 32);
  }

  // Returns the element of octet `octet` and K from 4 * `quad` on; `tile` is aligned to 1024 bytes.
  GEMMD_DEVICE double Load(ptx::SharedAddress tile, std::uint32_t octet, std::uint32_t quad) const {
    if constexpr (Tile::kIsKMajor) {
      // Chunks of K are 2 further for each 4 of it.
      return ptx::LoadShared<double>(tile + place_[quad % 4] + quad / 4 * Tile::kBoxBytes +
                                     octet * (8 * kSpanBytes));
    } else {
      // The second octet's chunks are 2 further, and lines of K from 4 on are swizzled by 4 more.
      return ptx::LoadShared<double>(tile + place_[octet % 2 + quad % 2 * 2] +
                                     quad * (4 * kSpanBytes) + octet / 2 * Tile::kBoxBytes);
    }
  }

 private:
  std::uint32_t place_[4];
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::f64
