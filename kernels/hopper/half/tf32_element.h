// The element type of the tf32 products.
#pragma once

#include "kernels/ptx/tensor_map.h"
#include "kernels/ptx/wgmma.h"

namespace gemmd::hopper::half {
inline namespace GEMMD_BACKEND {

// Binary32 that TMA rounds to tf32 as it loads. K is counted in units of 16 bits, two for each
// element (tf32_units.h). D is f32.
struct Tf32Element {
  static constexpr ptx::WgmmaType kType = ptx::WgmmaType::kTf32;
  static constexpr ptx::TensorElement kMapElement = ptx::TensorElement::kTf32;
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::half
