// Element types of the Hopper GEMM: what wgmma is told, and what D's elements are made by.
#pragma once

#include "kernels/ptx/convert.h"
#include "kernels/ptx/tensor_map.h"
#include "kernels/ptx/wgmma.h"

namespace gemmd::hopper {
inline namespace GEMMD_BACKEND {

struct F16Element {
  static constexpr ptx::WgmmaType kType = ptx::WgmmaType::kF16;
  static constexpr ptx::TensorElement kMapElement = ptx::TensorElement::kF16;
  static GEMMD_DEVICE std::uint32_t Pack(float low, float high) { return ptx::PackF16(low, high); }
};

struct Bf16Element {
  static constexpr ptx::WgmmaType kType = ptx::WgmmaType::kBf16;
  static constexpr ptx::TensorElement kMapElement = ptx::TensorElement::kBf16;
  static GEMMD_DEVICE std::uint32_t Pack(float low, float high) { return ptx::PackBf16(low, high); }
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper
