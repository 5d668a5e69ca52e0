// The parameters of a ladder C kernel, and the places in its shared memory.
#pragma once

#include <cstdint>

#include "kernels/mma/half_gemm_params.h"
#include "kernels/mma/tile_layout.h"
#include "kernels/ptx/matrix_descriptor.h"
#include "kernels/ptx/mbarrier.h"
#include "kernels/ptx/platform.h"
#include "kernels/ptx/tensor_map.h"

namespace gemmd::blackwell_bf16 {

inline constexpr int kWarps = 4;  // a warpgroup: what reaches all of tensor memory
inline constexpr int kThreads = 32 * kWarps;

inline namespace GEMMD_BACKEND {

// `gemm` with B as it lies: k x n, or n x k where it is K-major. Maps that a step does not use are
// empty.
struct LadderCParams {
  mma::HalfGemmParams gemm;
  ptx::TensorMap a;
  ptx::TensorMap b;
  ptx::TensorMap d;
};

// The layout of a tile of an operand: kExtent of M or N by kTileK of K. Its lines lie along K, or
// along M or N, in chunks of 8 elements that TMA loads one after another, all lines of each; or in
// spans of 128 bytes, swizzled.
template <class Step, ptx::Major kMajor, int kExtent>
struct OperandTile {
  static constexpr bool kIsKMajor = kMajor == ptx::Major::kK;
  static constexpr int kLines = kIsKMajor ? kExtent : Step::kTileK;
  static constexpr int kLineElements = kIsKMajor ? Step::kTileK : kExtent;
  static constexpr int kBoxElements = Step::kSwizzle ? 64 : 8;
  static constexpr int kBoxes = kLineElements / kBoxElements;
  static constexpr std::uint32_t kBoxBytes = kLines * kBoxElements * 2;
  static constexpr std::uint32_t kBytes = kBoxes * kBoxBytes;
  static constexpr std::uint32_t kCoreBytes = 128;  // 8 lines of a chunk

  // The strides in the matrix descriptor (matrix_descriptor.h), and the distance to the next 16 of
  // K. Without a swizzle: the next chunk of a line is a box away, the next 8 lines a core matrix.
  // The major says which of both is along K. With it: 8 lines of 128 bytes are a kilobyte, and the
  // next span of a line, where it has one, is a box away.
  static constexpr std::uint32_t kSpanBytes = kBoxes > 1 ? kBoxBytes : 16;
  static constexpr std::uint32_t kLeadingBytes =
      Step::kSwizzle ? kSpanBytes : (kIsKMajor ? kBoxBytes : kCoreBytes);
  static constexpr std::uint32_t kStrideBytes =
      Step::kSwizzle ? 1024 : (kIsKMajor ? kCoreBytes : kBoxBytes);
  // 16 of K are two chunks of every line, or 16 lines.
  static constexpr std::uint32_t kStepBytes =
      kIsKMajor ? (Step::kSwizzle ? 32 : 2 * kBoxBytes) : (Step::kSwizzle ? 2048 : 2 * kCoreBytes);
};

// The layout of a step's shared memory. B takes as much whatever its major.
template <class Step>
struct LadderCLayout {
  using A = OperandTile<Step, ptx::Major::kK, Step::kTileM>;
  static constexpr std::uint32_t kABytes = A::kBytes;
  static constexpr std::uint32_t kBBytes = Step::kTileN * Step::kTileK * 2;
  // The layout that TMA stores: panels of 64 columns, lines of 128 bytes, swizzled.
  using D = mma::PanelLayout<Step::kTileM, Step::kTileN>;
  static_assert(D::kBytes <= kABytes + kBBytes, "D takes the operands' place");

  static constexpr std::uint32_t kA = 0;
  static constexpr std::uint32_t kB = kABytes;
  static constexpr std::uint32_t kD = 0;
  static constexpr std::uint32_t kLoaded = kABytes + kBBytes;  // mbarriers
  static constexpr std::uint32_t kMultiplied = kLoaded + ptx::kMbarrierBytes;
  static constexpr std::uint32_t kSlot = kMultiplied + ptx::kMbarrierBytes;
  static constexpr std::uint32_t kSharedBytes = kSlot + 16;
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::blackwell_bf16
