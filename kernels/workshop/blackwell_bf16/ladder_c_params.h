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

// The layout of a step on tcgen05. A and B are tiles of 64 lines of 64 elements: in chunks of 8
// elements that TMA loads one after another, 64 lines of each; or whole lines of 128 bytes,
// swizzled.
template <class Step>
struct LadderCLayout {
  // The layout that TMA stores: lines of 128 bytes, swizzled.
  using D = mma::TileLayout<Step::kTileM, Step::kTileN, true>;

  static constexpr int kLineElements = Step::kTileK;
  static constexpr int kBoxElements = Step::kSwizzle ? kLineElements : 8;
  static constexpr int kBoxes = kLineElements / kBoxElements;  // a tile
  static constexpr std::uint32_t kBoxBytes = Step::kTileM * kBoxElements * 2;
  static constexpr std::uint32_t kTileBytes = kBoxes * kBoxBytes;
  static_assert(Step::kTileM == Step::kTileN && Step::kTileM == Step::kTileK,
                "tiles of A and of B, whatever their major, are alike");
  static_assert(D::kBytes == kTileBytes, "D takes A's place");

  static constexpr std::uint32_t kA = 0;
  static constexpr std::uint32_t kB = kTileBytes;
  static constexpr std::uint32_t kLoaded = 2 * kTileBytes;  // mbarriers
  static constexpr std::uint32_t kMultiplied = kLoaded + ptx::kMbarrierBytes;
  static constexpr std::uint32_t kSlot = kMultiplied + ptx::kMbarrierBytes;
  static constexpr std::uint32_t kSharedBytes = kSlot + 16;
};

// The strides in the matrix descriptor of such a tile (matrix_descriptor.h), and the distance to
// the next 16 of K.
template <class Step, ptx::Major kMajor>
struct OperandPlaces {
  static constexpr bool kIsKMajor = kMajor == ptx::Major::kK;
  static constexpr std::uint32_t kCoreBytes = 128;  // 8 lines of a chunk
  static constexpr std::uint32_t kBoxBytes = LadderCLayout<Step>::kBoxBytes;

  // Without a swizzle: the next chunk of a line is a box away, the next 8 lines a core matrix.
  // The major says which of both is along K. With it: 8 lines of 128 bytes are a kilobyte, and
  // there is no second span.
  static constexpr std::uint32_t kLeadingBytes =
      Step::kSwizzle ? 16 : (kIsKMajor ? kBoxBytes : kCoreBytes);
  static constexpr std::uint32_t kStrideBytes =
      Step::kSwizzle ? 1024 : (kIsKMajor ? kCoreBytes : kBoxBytes);
  // 16 of K are two chunks of every line, or 16 lines.
  static constexpr std::uint32_t kStepBytes =
      kIsKMajor ? (Step::kSwizzle ? 32 : 2 * kBoxBytes) : (Step::kSwizzle ? 2048 : 2 * kCoreBytes);
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::blackwell_bf16
