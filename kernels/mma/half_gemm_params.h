// The parameters of a 16-bit GEMM on mma.sync.
#pragma once

#include <cstdint>

#include "kernels/kernel.h"
#include "kernels/ptx/platform.h"

namespace gemmd::mma {
inline namespace GEMMD_BACKEND {

// D = A * B, all row-major with 16-bit elements. A is m x k, B is k x n. Pointers are
// aligned to 16 bytes and leading dimensions are multiples of 8 elements.
struct HalfGemmParams {
  const std::uint16_t* a;
  const std::uint16_t* b;
  std::uint16_t* d;
  std::int64_t lda;
  std::int64_t ldb;
  std::int64_t ldd;
  std::int32_t m;
  std::int32_t n;
  std::int32_t k;
  std::uint32_t tiles_m;  // of D
  std::uint32_t tiles_n;
};

// REQUIRES: HalfGemmRejection() (half_gemm_entry.h) is empty.
inline HalfGemmParams MakeHalfGemmParams(const Problem& problem, const Arguments& arguments,
                                         int tile_m, int tile_n) {
  HalfGemmParams params;
  params.a = static_cast<const std::uint16_t*>(arguments.a);
  params.b = static_cast<const std::uint16_t*>(arguments.b);
  params.d = static_cast<std::uint16_t*>(arguments.d);
  params.lda = problem.a.leading_dimension;
  params.ldb = problem.b.leading_dimension;
  params.ldd = problem.d.leading_dimension;
  params.m = static_cast<std::int32_t>(problem.m);
  params.n = static_cast<std::int32_t>(problem.n);
  params.k = static_cast<std::int32_t>(problem.k);
  params.tiles_m = static_cast<std::uint32_t>((problem.m + tile_m - 1) / tile_m);
  params.tiles_n = static_cast<std::uint32_t>((problem.n + tile_n - 1) / tile_n);
  return params;
}

// Where a block's tile starts.
struct TileCorner {
  std::int32_t row;
  std::int32_t column;
};

// Blocks are numbered along a row of tiles; or, in groups of `group` rows, down the columns of
// the group, so that blocks running together share more of A and B. Any grid will do: the
// last group may have fewer rows. Params has tiles_m and tiles_n, of D.
template <class Params>
GEMMD_DEVICE TileCorner RasterTile(std::uint32_t block, const Params& params, std::uint32_t group,
                                   int tile_m, int tile_n) {
  const std::uint32_t in_group = group * params.tiles_n;
  const std::uint32_t first_row = block / in_group * group;
  const std::uint32_t rows_left = params.tiles_m - first_row;
  const std::uint32_t rows = rows_left < group ? rows_left : group;
  const std::uint32_t nth = block % in_group;
  return {static_cast<std::int32_t>((first_row + nth % rows) * tile_m),
          static_cast<std::int32_t>(nth / rows * tile_n)};
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::mma
