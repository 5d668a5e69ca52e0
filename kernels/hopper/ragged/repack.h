// Copies lines that start anywhere to lines that start at units of 16 bytes, a unit a thread: two
// aligned loads, of which neighbours share one, moved into place by words and half a word.
#pragma once

#include "kernels/hopper/ragged/params.h"
#include "kernels/ptx/global_memory.h"
#include "kernels/ptx/grid_dependency.h"
#include "kernels/ptx/indices.h"

namespace gemmd::hopper::ragged {
inline namespace GEMMD_BACKEND {

inline constexpr std::uint32_t kRepackThreads = 256;

// Returns the unit at an address that is a multiple of 16, with zeros outside of the operand.
GEMMD_DEVICE ptx::Vector4 LoadUnit(const RepackPlane& plane, std::uint64_t at) {
  const auto begin = reinterpret_cast<std::uint64_t>(plane.from);
  if (at >= begin && at + 16 <= plane.from_end) {
    return ptx::LoadGlobal(reinterpret_cast<const ptx::Vector4*>(at));
  }
  std::uint32_t words[4] = {0, 0, 0, 0};
  GEMMD_UNROLL
  for (std::uint32_t i = 0; i < 8; ++i) {
    const std::uint64_t each = at + 2 * i;
    if (each < begin || each >= plane.from_end) continue;
    words[i / 2] |= std::uint32_t{ptx::LoadGlobal(reinterpret_cast<const std::uint16_t*>(each))}
                    << (16 * (i % 2));
  }
  return {words[0], words[1], words[2], words[3]};
}

GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(kRepackThreads, 4)
    Repack(const GEMMD_GRID_CONSTANT RepackParams params) {
  ptx::WaitForPrecedingGrid();
  // The launch behind must not start before: it may read B as soon as it begins.
  ptx::LaunchDependentGrid();
  std::uint32_t id = ptx::BlockIndexX() * kRepackThreads + ptx::ThreadIndex();
  if (id >= params.units) return;
  const bool is_second = id >= params.first_units;
  const RepackPlane& plane = params.planes[is_second ? 1 : 0];
  if (is_second) id -= params.first_units;
  const std::uint32_t line = id / plane.line_units;
  const std::uint32_t unit = id - line * plane.line_units;
  const std::uint32_t left = plane.length - unit * 8;
  const std::uint32_t count = left < 8 ? left : 8;
  const std::uint64_t from =
      reinterpret_cast<std::uint64_t>(plane.from + line * plane.from_pitch + unit * 8);
  const std::uint64_t aligned = from / 16 * 16;
  const auto shift = static_cast<std::uint32_t>(from - aligned);  // bytes
  const ptx::Vector4 low = LoadUnit(plane, aligned);
  ptx::Vector4 high = {0, 0, 0, 0};
  if (shift + 2 * count > 16) high = LoadUnit(plane, aligned + 16);
  std::uint32_t words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
  GEMMD_UNROLL
  for (int i = 0; i < 6; ++i) words[i] = (shift & 8) != 0 ? words[i + 2] : words[i];
  GEMMD_UNROLL
  for (int i = 0; i < 5; ++i) words[i] = (shift & 4) != 0 ? words[i + 1] : words[i];
  GEMMD_UNROLL
  for (int i = 0; i < 4; ++i) {
    if ((shift & 2) != 0) words[i] = words[i] >> 16 | words[i + 1] << 16;
  }
  GEMMD_UNROLL
  for (std::uint32_t i = 0; i < 4; ++i) {
    if (count <= 2 * i) words[i] = 0;
    if (count == 2 * i + 1) words[i] &= 0xffff;
  }
  ptx::StoreGlobal(plane.to + std::uint64_t{line} * plane.to_pitch + unit,
                   ptx::Vector4{words[0], words[1], words[2], words[3]});
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::ragged
