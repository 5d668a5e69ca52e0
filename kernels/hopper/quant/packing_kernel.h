// The kernels behind packing.h. They read single elements, and are as quick as a copy of B over a
// network needs them to be; nothing of a product waits for them.
#pragma once

#include "kernels/hopper/quant/packed.h"
#include "kernels/hopper/quant/packed_places.h"
#include "kernels/ptx/global_memory.h"
#include "kernels/ptx/indices.h"

namespace gemmd::hopper::quant {

inline constexpr int kPackingThreads = 256;

inline namespace GEMMD_BACKEND {

struct PackingParams {
  const void* sent;
  void* packed;
  PackedPlaces places;
  VectorElements elements;  // of a plane that has no codes
};

// A unit of a plane that has so many groups.
struct PackedUnit {
  std::int64_t first_line;
  std::int64_t group;
};
GEMMD_DEVICE PackedUnit UnitOf(std::int64_t groups, std::int64_t index) {
  const std::int64_t chunk_group = index / kChunkStrips;
  return {chunk_group / groups * kChunkLines + index % kChunkStrips * kStripLines,
          chunk_group % groups};
}

// Constants of a code, for device code.
template <Code kCode>
inline constexpr int kCodeBits = CodeBits(kCode);
template <Code kCode>
inline constexpr int kPairWords = PairWords(kCode);

// Adds what a word of two steps has of a code, and of all codes, which code_of(step, j, half)
// gives: `kNth` counts them.
template <Code kCode, int kWord, int kNth, int kBit>
GEMMD_DEVICE std::uint32_t PlacedBits(std::uint32_t code) {
  if constexpr (kBit == kCodeBits<kCode>) {
    return 0;
  } else {
    constexpr int kPlace = kCodePlace<kCode, kNth / 8, kNth / 2 % 4, kNth % 2, kBit>;
    const std::uint32_t others = PlacedBits<kCode, kWord, kNth, kBit + 1>(code);
    if constexpr (kPlace / 32 != kWord) return others;
    return others | ((code >> kBit) & 1) << (kPlace % 32);
  }
}
template <Code kCode, int kWord, int kNth = 0, class CodesOfLane>
GEMMD_DEVICE std::uint32_t PackedWord(const CodesOfLane& code_of) {
  if constexpr (kNth == 16) {
    return 0;
  } else {
    return PlacedBits<kCode, kWord, kNth, 0>(code_of(kNth / 8, kNth / 2 % 4, kNth % 2)) |
           PackedWord<kCode, kWord, kNth + 1>(code_of);
  }
}
// Calls store(word, its bits) for the words of two steps.
template <Code kCode, int kWord = 0, class CodesOfLane, class Store>
GEMMD_DEVICE void PackPair(const CodesOfLane& code_of, const Store& store) {
  if constexpr (kWord < kPairWords<kCode>) {
    store(kWord, PackedWord<kCode, kWord>(code_of));
    PackPair<kCode, kWord + 1>(code_of, store);
  }
}

// A code as it was sent: lowest bits first, without gaps.
template <Code kCode>
GEMMD_DEVICE std::uint32_t SentCode(const std::uint8_t* codes, std::int64_t at) {
  constexpr int kBits = kCodeBits<kCode>;
  if constexpr (kBits == 8) return ptx::LoadGlobal(codes + at);
  const std::int64_t bit = at * kBits;
  std::uint32_t bits = ptx::LoadGlobal(codes + bit / 8);
  if (bit % 8 + kBits > 8) bits |= std::uint32_t{ptx::LoadGlobal(codes + bit / 8 + 1)} << 8;
  return (bits >> (bit % 8)) & ((1u << kBits) - 1);
}

// A warp for a unit.
template <Code kCode>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(kPackingThreads, 2)
    PackCodes(GEMMD_GRID_CONSTANT const PackingParams params) {
  constexpr int kWarps = kPackingThreads / 32;
  constexpr int kUnitBytes = 256 * kCodeBits<kCode>;
  const PackedPlaces& places = params.places;
  const auto* const codes = static_cast<const std::uint8_t*>(params.sent);
  const std::uint32_t lane = ptx::LaneIndex();
  for (std::int64_t index = ptx::BlockIndexX() * kWarps + ptx::ThreadIndex() / 32;
       index < places.units; index += std::int64_t{ptx::GridSizeX()} * kWarps) {
    const PackedUnit unit = UnitOf(places.groups, index);
    std::uint8_t* const to = static_cast<std::uint8_t*>(params.packed) + index * kUnitBytes;
    for (int pair = 0; pair < kSteps / 2; ++pair) {
      const auto code_of = [&](int step, int j, int half) {
        const std::int64_t line = unit.first_line + lane / 4 + j % 2 * 8;
        const std::int64_t k =
            unit.group * kGroupK + (pair * 2 + step) * kStepK + lane % 4 * 2 + j / 2 * 8 + half;
        if (line >= places.n || k >= places.k) return 0u;
        return SentCode<kCode>(codes, line * places.line_stride + k * places.k_stride) ^
               places.bias;
      };
      PackPair<kCode>(code_of, [&](int word, std::uint32_t bits) {
        const int nth = pair * kPairWords<kCode> + word;
        ptx::StoreGlobal(
            reinterpret_cast<std::uint32_t*>(to + nth / 4 * 512 + lane * 16 + nth % 4 * 4), bits);
      });
    }
  }
}

// A thread for each scale or zero point.
template <class Element>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(kPackingThreads, 2)
    PackVector(GEMMD_GRID_CONSTANT const PackingParams params) {
  const PackedPlaces& places = params.places;
  const VectorElements& elements = params.elements;
  const std::int64_t unit_elements = kStripLines * elements.count;
  const std::int64_t count = places.scale_units * unit_elements;
  for (std::int64_t at = std::int64_t{ptx::BlockIndexX()} * kPackingThreads + ptx::ThreadIndex();
       at < count; at += std::int64_t{ptx::GridSizeX()} * kPackingThreads) {
    const PackedUnit unit = UnitOf(places.scale_groups, at / unit_elements);
    const std::int64_t nth = at % unit_elements / elements.count;
    const std::int64_t line = unit.first_line + nth / 2 + nth % 2 * 8;
    const std::int64_t block = unit.group * elements.count + at % elements.count;
    Element value = 0;
    if (line < places.n && block < places.scale_blocks) {
      value = ptx::LoadGlobal(static_cast<const Element*>(params.sent) +
                              line / places.scale_lines * places.scale_line_stride +
                              block * places.scale_block_stride);
      if constexpr (sizeof(Element) == 1) value = static_cast<Element>(value + elements.bias);
    }
    ptx::StoreGlobal(static_cast<Element*>(params.packed) + at, value);
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::quant
