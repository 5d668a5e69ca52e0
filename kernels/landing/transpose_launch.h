// Host code of the transposition, compiled for the device and for the emulator.
#pragma once

#include "absl/status/status.h"
#include "kernels/landing/transpose.h"
#include "kernels/landing/transpose_kernel.h"
#include "kernels/ptx/launch.h"

namespace gemmd::landing {
inline namespace GEMMD_BACKEND {

template <int kElementBytes>
absl::Status LaunchTransposeOf(const Transposition& t, const LaunchTarget& target) {
  using Shape = TransposeShape<kElementBytes>;
  TransposeParams params;
  params.from = t.from;
  params.to = t.to;
  params.from_pitch = t.from_leading_dimension / Shape::kSide;
  params.to_pitch = t.to_leading_dimension / Shape::kSide;
  params.rows = t.rows;
  params.columns = t.columns;
  params.padded_rows = t.padded_rows;
  params.padded_columns = t.padded_columns;
  const auto tiles = [](std::int64_t elements) {
    return static_cast<std::uint32_t>((elements + Shape::kTile - 1) / Shape::kTile);
  };
  params.tiles_along_columns = tiles(t.padded_rows);
  ptx::LaunchShape shape;
  shape.kernel = "landing/transpose";
  shape.blocks_x = params.tiles_along_columns * tiles(t.padded_columns);
  shape.threads = kTransposeThreads;
  shape.shared_bytes = TransposeSharedBytes<kElementBytes>();
  const auto bytes = [](std::int64_t lines, std::int64_t leading_dimension) {
    return static_cast<std::uint64_t>(lines * leading_dimension) * kElementBytes;
  };
  return ptx::Launch(Transpose<kElementBytes>, shape, params,
                     {{t.from, bytes(t.rows, t.from_leading_dimension), "from"},
                      {t.to, bytes(t.padded_rows, t.to_leading_dimension), "to", false}},
                     target);
}

// REQUIRES: what Transposition does.
inline absl::Status LaunchChecked(const Transposition& t, const LaunchTarget& target) {
  switch (t.element_bytes) {
    case 1:
      return LaunchTransposeOf<1>(t, target);
    case 2:
      return LaunchTransposeOf<2>(t, target);
    case 4:
      return LaunchTransposeOf<4>(t, target);
    default:
      return LaunchTransposeOf<8>(t, target);
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::landing
