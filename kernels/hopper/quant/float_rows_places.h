// The product that rows of f32 are made of, and where its operands lie: pure functions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/math.h"
#include "kernels/hopper/quant/packed.h"
#include "kernels/kernel.h"

namespace gemmd::hopper::quant {

// Rows of A that are multiplied at a time: what the workspace has room for.
inline constexpr std::int64_t kFloatRowsAtOnce = 1024;
// Each is as many of bf16 (float_rows.h).
inline constexpr std::int64_t kPartsOfRow = 3;

// The bytes of a workspace before each of its parts.
struct FloatRowsPlaces {
  std::uint64_t sums = 0;      // behind the rows of bf16
  std::uint64_t row_sums = 0;  // of the product's workspace
};

// The product of the rows of bf16, of f32 and in D's order, in a workspace.
inline Problem ProductOfParts(const Problem& problem) {
  Problem parts = problem;
  parts.m = kPartsOfRow * std::min(problem.m, kFloatRowsAtOnce);
  parts.transpose_a = false;
  parts.a = {DataType::kBf16, parts.m, parts.k, Order::kRowMajor, parts.k};
  parts.d.type = DataType::kF32;
  parts.d.rows = parts.m;
  // So that four neighbours are stored at once.
  parts.d.leading_dimension = RoundUp(parts.d.inner(), 4);
  parts.c = parts.d;
  parts.epilogue = {};
  return parts;
}

// `parts`: a ProductOfParts().
inline FloatRowsPlaces PlacesOfParts(const Problem& parts) {
  constexpr std::uint64_t kAlignment = 256;
  FloatRowsPlaces places;
  places.sums = RoundUp(parts.a.size_bytes(), kAlignment);
  places.row_sums = places.sums + RoundUp(parts.d.size_bytes(), kAlignment);
  return places;
}

}  // namespace gemmd::hopper::quant
