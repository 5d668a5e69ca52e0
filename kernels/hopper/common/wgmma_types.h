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

// Binary32 that TMA rounds to tf32 as it loads. K is counted in units of 16 bits, two for each
// element (tf32_units.h). D is f32.
struct Tf32Element {
  static constexpr ptx::WgmmaType kType = ptx::WgmmaType::kTf32;
  static constexpr ptx::TensorElement kMapElement = ptx::TensorElement::kTf32;
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper
