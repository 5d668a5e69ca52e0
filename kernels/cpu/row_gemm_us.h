// The predicted time of kernels that go through RowGemm().
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/math.h"
#include "kernels/cpu/row_gemm.h"
#include "kernels/cpu/units.h"
#include "kernels/kernel.h"

namespace gemmd {

// Decoding an element of B takes as long as multiplying it by so many rows.
inline double RowsOfDecoding(const Problem& problem, bool sums_f32) {
  return sums_f32 && problem.m <= kFewRows && problem.b_is_k_major() ? 5 : 12;
}

// `speed` is that of the arithmetic, 1 for f32.
inline double RowGemmUs(const Problem& problem, int threads, const DeviceTraits& device,
                        double speed, double rows_of_decoding) {
  const auto depth = static_cast<std::int64_t>(static_cast<double>(problem.k) / speed);
  const Units units(problem.m, problem.n, depth, threads, Units::kMostRows,
                    rows_of_decoding > 0 ? Units::kLeastDecodedRows : Units::kLeastRows);
  const auto rounds = static_cast<double>(CeilOfRatio(units.count(), threads));
  const auto rows = static_cast<double>(units.rows()) + rows_of_decoding;
  const double unit_flops =
      2 * rows * static_cast<double>(units.columns()) * static_cast<double>(problem.k);
  const double thread_gflops = device.f32_gflops * speed / device.compute_units;
  const auto bytes =
      static_cast<double>(problem.a.size_bytes() + problem.b.size_bytes() + problem.d.size_bytes());
  return std::max(rounds * unit_flops / thread_gflops, bytes / device.memory_gbps) / 1e3;
}

}  // namespace gemmd
