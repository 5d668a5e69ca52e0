// The size of the f32 product's workspace. Host code, pure.
#pragma once

#include <cstdint>

#include "kernels/hopper/f32/tilings.h"
#include "kernels/kernel.h"

namespace gemmd::hopper::f32 {

// Returns the bytes of A's parts: whole tiles of lines and whole stages of 64 of K, 6 bytes an
// element.
inline std::uint64_t PartBytes(const Tiling& tiling, const Problem& problem) {
  const std::int64_t columns = tiling.columns();
  const std::int64_t lines = (problem.m + columns - 1) / columns * columns;
  return static_cast<std::uint64_t>(lines) * static_cast<std::uint64_t>((problem.k + 63) / 64) *
         (64 * 6);
}

}  // namespace gemmd::hopper::f32
