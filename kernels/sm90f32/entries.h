// The two compilations of the f32 product, as functions, and the workspace they take. Host code.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/kernel.h"
#include "kernels/sm90f32/tilings.h"

namespace gemmd::sm90f32 {

// `tiling` is an index of kTilings. Queues on target.stream. UNIMPLEMENTED: built without CUDA.
absl::Status CudaProduct(int tiling, const Problem& problem, const Config& config,
                         const Arguments& arguments, const LaunchTarget& target);

// Runs in target.emulator, whose report is of the last launch, or of the first wrong one.
absl::Status EmulatedProduct(int tiling, const Problem& problem, const Config& config,
                             const Arguments& arguments, const LaunchTarget& target);

// Of A's parts: whole tiles of lines and whole stages of 64 of K, 6 bytes an element.
inline std::uint64_t PartBytes(const Tiling& tiling, const Problem& problem) {
  const std::int64_t columns = tiling.columns();
  const std::int64_t lines = (problem.m + columns - 1) / columns * columns;
  return static_cast<std::uint64_t>(lines) * static_cast<std::uint64_t>((problem.k + 63) / 64) *
         (64 * 6);
}

}  // namespace gemmd::sm90f32
