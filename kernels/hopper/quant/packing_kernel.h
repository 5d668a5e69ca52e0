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

// A warp for a unit: two codes in a byte, the even one low.
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(kPackingThreads, 2)
    PackCodes(GEMMD_GRID_CONSTANT const PackingParams params) {
  constexpr int kWarps = kPackingThreads / 32;
  const PackedPlaces& places = params.places;
  const auto* const codes = static_cast<const std::uint8_t*>(params.sent);
  const std::uint32_t lane = ptx::LaneIndex();
  const auto code_of = [&](std::int64_t line, std::int64_t k) {
    if (line >= places.n || k >= places.k) return 0u;
    const std::int64_t index = line * places.line_stride + k * places.k_stride;
    const std::uint32_t both = ptx::LoadGlobal(codes + index / 2);
    return ((both >> (index % 2 * 4)) & 15) ^ places.bias;
  };
  for (std::int64_t index = ptx::BlockIndexX() * kWarps + ptx::ThreadIndex() / 32;
       index < places.units; index += std::int64_t{ptx::GridSizeX()} * kWarps) {
    const PackedUnit unit = UnitOf(places, index);
    const std::int64_t line = unit.first_line + lane / 4;
    std::uint8_t* const to = static_cast<std::uint8_t*>(params.packed) + index * kCodeBytes;
    for (std::uint32_t step = 0; step < kSteps; ++step) {
      const std::int64_t k = unit.group * kGroupK + step * kStepK + lane % 4 * 2;
      std::uint32_t word = 0;
      GEMMD_UNROLL
      for (std::uint32_t j = 0; j < 4; ++j) {
        GEMMD_UNROLL
        for (std::uint32_t half = 0; half < 2; ++half) {
          word |= code_of(line + j % 2 * 8, k + j / 2 * 8 + half) << (16 * half + 4 * j);
        }
      }
      ptx::StoreGlobal(
          reinterpret_cast<std::uint32_t*>(to + step / 4 * 512 + lane * 16 + step % 4 * 4), word);
    }
  }
}

// A thread for each scale, or zero point: elements of either size.
template <class Element>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(kPackingThreads, 2)
    PackVector(GEMMD_GRID_CONSTANT const PackingParams params) {
  const PackedPlaces& places = params.places;
  const std::int64_t count = places.units * kStripLines;
  for (std::int64_t at = std::int64_t{ptx::BlockIndexX()} * kPackingThreads + ptx::ThreadIndex();
       at < count; at += std::int64_t{ptx::GridSizeX()} * kPackingThreads) {
    const PackedUnit unit = UnitOf(places, at / kStripLines);
    const std::int64_t nth = at % kStripLines;
    const std::int64_t line = unit.first_line + nth / 2 + nth % 2 * 8;
    Element value = 0;
    if (line < places.n) {
      value =
          ptx::LoadGlobal(static_cast<const Element*>(params.sent) +
                          line * places.scale_line_stride + unit.group * places.scale_group_stride);
    }
    if constexpr (sizeof(Element) == 1) {
      value = line < places.n ? static_cast<Element>((value + places.bias) & 15) : Element{0};
    }
    ptx::StoreGlobal(static_cast<Element*>(params.packed) + at, value);
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::quant
