// Tensor maps: what TMA must know of a matrix in global memory. Host code; kernels take a
// TensorMap inside their parameters, which GEMMD_GRID_CONSTANT keeps addressable.
//
// CUDA Driver API, cuTensorMapEncodeTiled.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "kernels/ptx/platform.h"
#include "kernels/ptx/swizzle.h"

#ifdef __CUDACC__
#include <cuda.h>
#include <cuda_runtime.h>
#else
#include "kernels/emulator/memory/tensor_map.h"
#endif

namespace gemmd::ptx {
inline namespace GEMMD_BACKEND {

#ifdef __CUDACC__
using TensorMap = CUtensorMap;
enum class TensorElement : std::uint32_t { kU8, kF16, kBf16, kF32, kU32, kTf32 };
#else
using emulator::TensorElement;
using emulator::TensorMap;
#endif

// The hardware has five; no kernel needs the fifth.
inline constexpr int kMaxTensorRank = 4;

// Dimensions run fastest first.
struct TensorMapSpec {
  const void* base = nullptr;  // aligned to 16 bytes
  TensorElement element = TensorElement::kU8;
  int rank = 2;
  std::uint64_t size[kMaxTensorRank] = {1, 1, 1, 1};
  // The strides of dimensions 1 and up; multiples of 16, below 2^40. [0] is not read.
  std::uint64_t stride_bytes[kMaxTensorRank] = {0, 0, 0, 0};
  // The box that one copy moves: at most 256 in each dimension; in the first a multiple of 16 bytes
  // and, where swizzled, the swizzle's whole span.
  std::uint32_t box[kMaxTensorRank] = {1, 1, 1, 1};
  Swizzle swizzle = Swizzle::kNone;
};

inline std::uint32_t TensorElementBytes(TensorElement element) {
  if (element == TensorElement::kU8) return 1;
  return element == TensorElement::kF16 || element == TensorElement::kBf16 ? 2 : 4;
}

// Says why the driver refuses it, in one line; empty if it does not. One is refused here alone: the
// driver takes swizzled rows shorter than the span, which then lie a span apart and reach beyond
// the bytes of the box in shared memory. docs/lab/tma.md says what is known of them.
inline std::string TensorMapError(const TensorMapSpec& spec) {
  if (spec.rank < 1 || spec.rank > kMaxTensorRank) return absl::StrCat("rank ", spec.rank);
  if (reinterpret_cast<std::uint64_t>(spec.base) % 16 != 0) return "base not aligned to 16 bytes";
  for (int i = 0; i < spec.rank; ++i) {
    if (spec.size[i] == 0 || spec.size[i] > (std::uint64_t{1} << 32)) {
      return absl::StrCat("size ", spec.size[i], " of dimension ", i);
    }
    if (spec.box[i] == 0 || spec.box[i] > 256) {
      return absl::StrCat("box ", spec.box[i], " of dimension ", i);
    }
    if (i > 0 && (spec.stride_bytes[i] % 16 != 0 || spec.stride_bytes[i] >> 40 != 0)) {
      return absl::StrCat("stride of ", spec.stride_bytes[i], " bytes of dimension ", i);
    }
  }
  const std::uint32_t row = spec.box[0] * TensorElementBytes(spec.element);
  if (row % 16 != 0) return absl::StrCat("box rows of ", row, " bytes, not a multiple of 16");
  const auto span = static_cast<std::uint32_t>(spec.swizzle);
  if (span != 0 && row != span) {
    return absl::StrCat("box rows of ", row, " bytes, swizzled in spans of ", span, ": not equal");
  }
  return "";
}

#ifdef __CUDACC__
// The driver's cuTensorMapEncodeTiled; null where it has none.
inline void* FindTensorMapEncoder() {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found;
  if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault,
                                       &found) != cudaSuccess ||
      found != cudaDriverEntryPointSuccess) {
    return nullptr;
  }
  return entry;
}
#endif

// INVALID_ARGUMENT: TensorMapError(). UNAVAILABLE: no driver. INTERNAL: it refused.
inline absl::StatusOr<TensorMap> MakeTensorMap(const TensorMapSpec& spec) {
  const std::string error = TensorMapError(spec);
  if (!error.empty()) return absl::InvalidArgumentError(absl::StrCat("tensor map: ", error));
#ifdef __CUDACC__
  static void* const entry = FindTensorMapEncoder();  // once: launches are counted in microseconds
  if (entry == nullptr) return absl::UnavailableError("the driver has no cuTensorMapEncodeTiled");
  static constexpr CUtensorMapDataType kTypes[] = {
      CU_TENSOR_MAP_DATA_TYPE_UINT8,    CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
      CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
      CU_TENSOR_MAP_DATA_TYPE_UINT32,   CU_TENSOR_MAP_DATA_TYPE_TFLOAT32};
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
  if (spec.swizzle == Swizzle::k32B) swizzle = CU_TENSOR_MAP_SWIZZLE_32B;
  if (spec.swizzle == Swizzle::k64B) swizzle = CU_TENSOR_MAP_SWIZZLE_64B;
  if (spec.swizzle == Swizzle::k128B) swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
  cuuint64_t size[kMaxTensorRank];
  cuuint64_t stride[kMaxTensorRank];
  cuuint32_t box[kMaxTensorRank];
  cuuint32_t step[kMaxTensorRank];
  for (int i = 0; i < spec.rank; ++i) {
    size[i] = spec.size[i];
    if (i > 0) stride[i - 1] = spec.stride_bytes[i];
    box[i] = spec.box[i];
    step[i] = 1;
  }
  TensorMap map;
  const auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(entry);
  const CUresult result =
      encode(&map, kTypes[static_cast<int>(spec.element)], static_cast<cuuint32_t>(spec.rank),
             const_cast<void*>(spec.base), size, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
             swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result == CUDA_SUCCESS) return map;
  return absl::InternalError(absl::StrCat("cuTensorMapEncodeTiled: error ", result));
#else
  TensorMap map;
  map.base = spec.base;
  for (int i = 0; i < spec.rank; ++i) {
    map.size[i] = spec.size[i];
    map.stride_bytes[i] = spec.stride_bytes[i];
    map.box[i] = spec.box[i];
  }
  map.rank = static_cast<std::uint32_t>(spec.rank);
  map.element = spec.element;
  map.swizzle = spec.swizzle;
  return map;
#endif
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::ptx
