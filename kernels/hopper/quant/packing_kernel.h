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
};

struct PackedUnit {
  std::int64_t first_line;
  std::int64_t group;
};
GEMMD_DEVICE PackedUnit UnitOf(const PackedPlaces& places, std::int64_t index) {
  const std::int64_t chunk_group = index / kChunkStrips;
  return {chunk_group / places.groups * kChunkLines + index % kChunkStrips * kStripLines,
          chunk_group % places.groups};
}

// A code in its word; and the word of a lane's eight, which code_of(j, half) gives.
template <CodeFormat kFormat, int kCode, int kBit = 0>
GEMMD_DEVICE std::uint32_t PlacedCode(std::uint32_t code) {
  const std::uint32_t placed = ((code >> kBit) & 1)
                               << kCodeBit<kFormat, kCode % 4, kCode / 4, kBit>;
  if constexpr (kBit == 3) {
    return placed;
  } else {
    return placed | PlacedCode<kFormat, kCode, kBit + 1>(code);
  }
}
template <CodeFormat kFormat, int kCode = 0, class CodeOf>
GEMMD_DEVICE std::uint32_t PackedWord(const CodeOf& code_of) {
  if constexpr (kCode == 8) {
    return 0;
  } else {
    return PlacedCode<kFormat, kCode>(code_of(kCode % 4, kCode / 4)) |
           PackedWord<kFormat, kCode + 1>(code_of);
  }
}

// A warp for a unit: two codes in a byte, the even one low.
template <CodeFormat kFormat>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(kPackingThreads, 2)
    PackCodes(GEMMD_GRID_CONSTANT const PackingParams params) {
  constexpr int kWarps = kPackingThreads / 32;
  const PackedPlaces& places = params.places;
  const auto* const codes = static_cast<const std::uint8_t*>(params.sent);
  const std::uint32_t lane = ptx::LaneIndex();
  for (std::int64_t index = ptx::BlockIndexX() * kWarps + ptx::ThreadIndex() / 32;
       index < places.units; index += std::int64_t{ptx::GridSizeX()} * kWarps) {
    const PackedUnit unit = UnitOf(places, index);
    std::uint8_t* const to = static_cast<std::uint8_t*>(params.packed) + index * kCodeBytes;
    for (std::uint32_t step = 0; step < kSteps; ++step) {
      const auto code_of = [&](int j, int half) {
        const std::int64_t line = unit.first_line + lane / 4 + j % 2 * 8;
        const std::int64_t k =
            unit.group * kGroupK + step * kStepK + lane % 4 * 2 + j / 2 * 8 + half;
        if (line >= places.n || k >= places.k) return 0u;
        const std::int64_t at = line * places.line_stride + k * places.k_stride;
        const std::uint32_t both = ptx::LoadGlobal(codes + at / 2);
        return ((both >> (at % 2 * 4)) & 15) ^ places.bias;
      };
      ptx::StoreGlobal(
          reinterpret_cast<std::uint32_t*>(to + step / 4 * 512 + lane * 16 + step % 4 * 4),
          PackedWord<kFormat>(code_of));
    }
  }
}

// A thread for each scale, of either size: kCount of a line's group.
template <class Element, int kCount>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(kPackingThreads, 2)
    PackScales(GEMMD_GRID_CONSTANT const PackingParams params) {
  constexpr int kUnitElements = kStripLines * kCount;
  const PackedPlaces& places = params.places;
  const std::int64_t count = places.units * kUnitElements;
  for (std::int64_t at = std::int64_t{ptx::BlockIndexX()} * kPackingThreads + ptx::ThreadIndex();
       at < count; at += std::int64_t{ptx::GridSizeX()} * kPackingThreads) {
    const PackedUnit unit = UnitOf(places, at / kUnitElements);
    const std::int64_t nth = at % kUnitElements / kCount;
    const std::int64_t line = unit.first_line + nth / 2 + nth % 2 * 8;
    const std::int64_t block = unit.group * kCount + at % kCount;
    Element value = 0;
    if (line < places.n && block < places.scale_blocks) {
      value = ptx::LoadGlobal(static_cast<const Element*>(params.sent) +
                              line * places.scale_line_stride + block * places.scale_block_stride);
    }
    ptx::StoreGlobal(static_cast<Element*>(params.packed) + at, value);
  }
}

// A thread for each zero point.
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(kPackingThreads, 2)
    PackZeroPoints(GEMMD_GRID_CONSTANT const PackingParams params) {
  const PackedPlaces& places = params.places;
  const std::int64_t count = places.units * kStripLines;
  for (std::int64_t at = std::int64_t{ptx::BlockIndexX()} * kPackingThreads + ptx::ThreadIndex();
       at < count; at += std::int64_t{ptx::GridSizeX()} * kPackingThreads) {
    const PackedUnit unit = UnitOf(places, at / kStripLines);
    const std::int64_t nth = at % kStripLines;
    const std::int64_t line = unit.first_line + nth / 2 + nth % 2 * 8;
    std::uint32_t value = 0;
    if (line < places.n) {
      value =
          ptx::LoadGlobal(static_cast<const std::uint8_t*>(params.sent) +
                          line * places.scale_line_stride + unit.group * places.scale_block_stride);
      value = (value + places.bias) & 15;
    }
    ptx::StoreGlobal(static_cast<std::uint8_t*>(params.packed) + at,
                     static_cast<std::uint8_t>(value));
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::quant
