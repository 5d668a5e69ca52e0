// The Hopper GEMM of operands whose lines start anywhere: D = A * transposed B, lines of K of any
// pitch. These are the parameters of its two launches.
//
// A's lines are copied to a workspace, aligned. B's, the larger operand's, are not: rows
// n = c mod 8 share one alignment, so each of eight classes is a tensor of its own whose lines
// begin at the unit of 16 bytes before theirs, and are moved into place on their way to wgmma,
// which takes them from registers. So the kernel works on the transposed product.
#pragma once

#include <cstdint>

#include "kernels/hopper/common/warpgroup.h"
#include "kernels/ptx/matrix_descriptor.h"
#include "kernels/ptx/mbarrier.h"
#include "kernels/ptx/tensor_copy.h"

namespace gemmd::hopper::ragged {

inline constexpr int kTileM = 256;  // of D
inline constexpr int kTileN = 128;
inline constexpr int kClasses = 8;  // elements of 16 bytes

inline namespace GEMMD_BACKEND {

// Lines of 16-bit elements that start anywhere, copied to lines that start at units of 16 bytes.
struct RepackPlane {
  const std::uint16_t* from;
  ptx::Vector4* to;
  std::uint64_t from_end;   // the address past the last element
  std::int64_t from_pitch;  // elements
  std::uint32_t to_pitch;   // units
  std::uint32_t lines;
  std::uint32_t length;      // elements of a line
  std::uint32_t line_units;  // of a line, the last one filled up with zeros
};

// One plane or two, the units of one after those of the other.
struct RepackParams {
  RepackPlane planes[2];
  std::uint32_t first_units;  // of the first plane
  std::uint32_t units;        // of both
};

struct ProductParams {
  ptx::TensorMap b[kClasses];  // rows n / 8 x k, with shift[c] elements ahead of k = 0
  ptx::TensorMap a;            // aligned
  std::uint16_t* d;
  std::int64_t d_pitch;
  std::int32_t m;
  std::int32_t n;
  std::int32_t k;
  std::uint32_t tiles_m;
  std::uint8_t shift[kClasses];  // elements
  // True where the caller says so, or where the launch ahead is the repack: it began after whatever
  // wrote B had ended.
  bool is_b_settled;
};

// Shared memory: stages of A (swizzled) and of a box for each class of B; then D, transposed.
struct ProductLayout {
  static constexpr int kStages = 4;
  static constexpr int kABytes = kTileM * hopper::kSpanBytes;
  static constexpr int kBoxRows = kTileN / kClasses;
  static constexpr int kBoxColumns = 72;  // 64 of K and a unit for the shift
  static constexpr int kBoxPitch = kBoxColumns * 2;
  static constexpr int kBoxBytes = kBoxRows * kBoxPitch;
  static constexpr int kStageBytes = kABytes + kClasses * kBoxBytes;
  static constexpr int kFull = kStages * kStageBytes;
  static constexpr int kEmpty = kFull + kStages * static_cast<int>(ptx::kMbarrierBytes);
  static constexpr int kSharedBytes = kEmpty + kStages * static_cast<int>(ptx::kMbarrierBytes);
  // A line of D's columns, of two rows a word; odd in words, against bank conflicts.
  static constexpr int kOutputPitch = kTileM * 2 + 4;
  static constexpr int kThreads = 3 * hopper::kWarpgroup;
  static_assert(kStageBytes % hopper::kAtomBytes == 0 && kBoxBytes % 128 == 0);
  static_assert(kSharedBytes <= hopper::kMaxSharedBytes);
  static_assert(kTileN * kOutputPitch <= kFull);
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::ragged
