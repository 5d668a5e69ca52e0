// Host code: the parameters of a launch, with the maps that its step uses.
#pragma once

#include "absl/status/statusor.h"
#include "kernels/kernel.h"
#include "kernels/mma/tensor_copy/params.h"
#include "kernels/ptx/tensor_map.h"

namespace gemmd::tensor_copy {
inline namespace GEMMD_BACKEND {

// A row-major matrix in boxes as Layout has them in shared memory.
template <class Layout>
absl::StatusOr<ptx::TensorMap> MakeMatrixMap(const void* data, const MatrixLayout& matrix) {
  static_assert(Layout::kRowBytes == 64 || Layout::kRowBytes == 128);
  ptx::TensorMapSpec spec;
  spec.base = data;
  spec.element =
      matrix.type == DataType::kBf16 ? ptx::TensorElement::kBf16 : ptx::TensorElement::kF16;
  spec.size[0] = static_cast<std::uint64_t>(matrix.columns);
  spec.size[1] = static_cast<std::uint64_t>(matrix.rows);
  spec.stride_bytes[1] = static_cast<std::uint64_t>(matrix.leading_dimension) * 2;
  spec.box[0] = Layout::kColumns;
  spec.box[1] = Layout::kRows;
  spec.swizzle = Layout::kRowBytes == 64 ? ptx::Swizzle::k64B : ptx::Swizzle::k128B;
  return ptx::MakeTensorMap(spec);
}

template <class Step>
absl::StatusOr<Params> MakeParams(const Problem& problem, const Arguments& arguments) {
  using Layout = BlockLayout<Step>;
  Params params = {};
  params.gemm = mma::MakeHalfGemmParams(problem, arguments, kTileM, kTileN);
  if (Step::kTensorLoads) {
    auto a = MakeMatrixMap<typename Layout::A>(arguments.a, problem.a);
    if (!a.ok()) return a.status();
    auto b = MakeMatrixMap<typename Layout::B::Panel>(arguments.b, problem.b);
    if (!b.ok()) return b.status();
    params.a = *a;
    params.b = *b;
  }
  if (Step::kBoxWarps > 0) {
    auto d = MakeMatrixMap<typename Layout::Box>(arguments.d, problem.d);
    if (!d.ok()) return d.status();
    params.d = *d;
  }
  return params;
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::tensor_copy
