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

// The bits of a code, for device code.
template <Code kCode>
inline constexpr int kCodeBits = CodeBits(kCode);

// A code in its word; and the word of some of a lane's registers, whose codes code_of(j, half)
// gives.
template <Code kCode, int kRegister, int kHalf, int kBit = 0>
GEMMD_DEVICE std::uint32_t PlacedCode(std::uint32_t code) {
  const std::uint32_t placed = ((code >> kBit) & 1) << kCodeBit<kCode, kRegister, kHalf, kBit>;
  if constexpr (kBit + 1 == kCodeBits<kCode>) {
    return placed;
  } else {
    return placed | PlacedCode<kCode, kRegister, kHalf, kBit + 1>(code);
  }
}
template <Code kCode, int kRegister, int kEnd, class CodeOf>
GEMMD_DEVICE std::uint32_t PackedWord(const CodeOf& code_of) {
  if constexpr (kRegister == kEnd) {
    return 0;
  } else {
    return PlacedCode<kCode, kRegister, 0>(code_of(kRegister, 0)) |
           PlacedCode<kCode, kRegister, 1>(code_of(kRegister, 1)) |
           PackedWord<kCode, kRegister + 1, kEnd>(code_of);
  }
}
// Word `nth` of a step.
template <Code kCode, class CodeOf>
GEMMD_DEVICE std::uint32_t StepWord(std::uint32_t nth, const CodeOf& code_of) {
  if constexpr (kCodeBits<kCode> == 4) {
    return PackedWord<kCode, 0, 4>(code_of);
  } else {
    return nth == 0 ? PackedWord<kCode, 0, 2>(code_of) : PackedWord<kCode, 2, 4>(code_of);
  }
}

// A code as it was sent: of 4 bits two are in a byte, the even one low.
template <Code kCode>
GEMMD_DEVICE std::uint32_t SentCode(const std::uint8_t* codes, std::int64_t at) {
  if constexpr (kCodeBits<kCode> == 4) {
    return (ptx::LoadGlobal(codes + at / 2) >> (at % 2 * 4)) & 15u;
  } else {
    return ptx::LoadGlobal(codes + at);
  }
}

// A warp for a unit.
template <Code kCode>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(kPackingThreads, 2)
    PackCodes(GEMMD_GRID_CONSTANT const PackingParams params) {
  constexpr int kWarps = kPackingThreads / 32;
  constexpr int kUnitBytes = 256 * kCodeBits<kCode>;
  constexpr std::uint32_t kWords = kCodeBits<kCode> / 4;  // of a step
  const PackedPlaces& places = params.places;
  const auto* const codes = static_cast<const std::uint8_t*>(params.sent);
  const std::uint32_t lane = ptx::LaneIndex();
  for (std::int64_t index = ptx::BlockIndexX() * kWarps + ptx::ThreadIndex() / 32;
       index < places.units; index += std::int64_t{ptx::GridSizeX()} * kWarps) {
    const PackedUnit unit = UnitOf(places.groups, index);
    std::uint8_t* const to = static_cast<std::uint8_t*>(params.packed) + index * kUnitBytes;
    for (std::uint32_t word = 0; word < kSteps * kWords; ++word) {
      const std::uint32_t step = word / kWords;
      const auto code_of = [&](int j, int half) {
        const std::int64_t line = unit.first_line + lane / 4 + j % 2 * 8;
        const std::int64_t k =
            unit.group * kGroupK + step * kStepK + lane % 4 * 2 + j / 2 * 8 + half;
        if (line >= places.n || k >= places.k) return 0u;
        return SentCode<kCode>(codes, line * places.line_stride + k * places.k_stride) ^
               places.bias;
      };
      ptx::StoreGlobal(
          reinterpret_cast<std::uint32_t*>(to + word / 4 * 512 + lane * 16 + word % 4 * 4),
          StepWord<kCode>(word % kWords, code_of));
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
      if constexpr (sizeof(Element) == 1) {
        value = static_cast<Element>((value + elements.bias) & elements.mask);
      }
    }
    ptx::StoreGlobal(static_cast<Element*>(params.packed) + at, value);
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::quant
