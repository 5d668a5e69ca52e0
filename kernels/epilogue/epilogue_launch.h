// Host code of the epilogue, compiled for the device and for the emulator.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "kernels/epilogue/epilogue.h"
#include "kernels/epilogue/epilogue_kernel.h"
#include "kernels/ptx/launch.h"

namespace gemmd::epilogue {
inline namespace GEMMD_BACKEND {

inline EpilogueParams MakeParams(const Problem& problem, const Product& product,
                                 const Arguments& arguments) {
  const gemmd::Epilogue& e = problem.epilogue;
  EpilogueParams params;
  params.product = product.data;
  params.c = e.beta != 0 ? arguments.c : nullptr;
  params.bias = e.has_bias ? arguments.bias : nullptr;
  params.d = arguments.d;
  const auto scales = [](const Scaling& scaling, const void* plane) {
    return scaling.has_scales ? static_cast<const float*>(plane) : nullptr;
  };
  params.a_scales = scales(problem.a_scaling, arguments.a_scales);
  params.b_scales = scales(problem.b_scaling, arguments.b_scales);
  params.product_pitch = product.leading_dimension;
  params.d_pitch = problem.d.leading_dimension;
  params.c_row_stride = problem.c.row_stride();
  params.c_column_stride = problem.c.column_stride();
  params.lines = problem.d.outer();
  params.line_length = problem.d.inner();
  params.a_scale_step = problem.a_scaling == Scaling::kVector ? 1 : 0;
  params.b_scale_step = problem.b_scaling == Scaling::kVector ? 1 : 0;
  params.line_threads_log2 = 0;
  while ((1 << params.line_threads_log2) < kThreads &&
         (std::int64_t{kElementsPerThread} << params.line_threads_log2) < params.line_length) {
    ++params.line_threads_log2;
  }
  const std::int64_t along = std::int64_t{kElementsPerThread} << params.line_threads_log2;
  params.blocks_along_line = static_cast<std::uint32_t>((params.line_length + along - 1) / along);
  params.alpha = e.alpha;
  params.beta = e.beta;
  params.lines_are_rows = problem.d.order == Order::kRowMajor;
  params.activation = e.activation;
  return params;
}

inline std::vector<ptx::DeviceBuffer> Buffers(const Problem& problem, const Product& product,
                                              const EpilogueParams& params) {
  MatrixLayout whole = problem.d;
  whole.type = product.type;
  whole.leading_dimension = product.leading_dimension;
  std::vector<ptx::DeviceBuffer> buffers = {{params.product, whole.size_bytes(), "product"},
                                            {params.d, problem.d.size_bytes(), "D", false}};
  const auto n = static_cast<std::uint64_t>(problem.n);
  const auto m = static_cast<std::uint64_t>(problem.m);
  const auto element = static_cast<std::uint64_t>(SizeBits(problem.d.type)) / 8;
  if (params.c != nullptr) buffers.push_back({params.c, problem.c.size_bytes(), "C"});
  if (params.bias != nullptr) buffers.push_back({params.bias, n * element, "bias"});
  if (params.a_scales != nullptr) {
    buffers.push_back({params.a_scales, (params.a_scale_step != 0 ? m : 1) * 4, "a_scales"});
  }
  if (params.b_scales != nullptr) {
    buffers.push_back({params.b_scales, (params.b_scale_step != 0 ? n : 1) * 4, "b_scales"});
  }
  return buffers;
}

template <class In, class Out>
absl::Status LaunchAs(const Problem& problem, const Product& product, const Arguments& arguments,
                      const LaunchTarget& target) {
  const EpilogueParams params = MakeParams(problem, product, arguments);
  const std::int64_t lines_per_block = kThreads >> params.line_threads_log2;
  ptx::LaunchShape shape;
  shape.kernel = "epilogue";
  shape.blocks_x =
      params.blocks_along_line *
      static_cast<std::uint32_t>((params.lines + lines_per_block - 1) / lines_per_block);
  shape.threads = kThreads;
  return ptx::Launch(Epilogue<In, Out>, shape, params, Buffers(problem, product, params), target);
}

template <class In>
absl::Status LaunchFrom(const Problem& problem, const Product& product, const Arguments& arguments,
                        const LaunchTarget& target) {
  switch (problem.d.type) {
    case DataType::kF16:
      return LaunchAs<In, F16>(problem, product, arguments, target);
    case DataType::kBf16:
      return LaunchAs<In, Bf16>(problem, product, arguments, target);
    default:
      return LaunchAs<In, F32>(problem, product, arguments, target);
  }
}

// REQUIRES: EpilogueRejection() is empty.
inline absl::Status LaunchChecked(const Problem& problem, const Product& product,
                                  const Arguments& arguments, const LaunchTarget& target) {
  switch (product.type) {
    case DataType::kF64:
      if (problem.d.type != DataType::kF64) {
        return LaunchFrom<F64>(problem, product, arguments, target);
      }
      return LaunchAs<F64, F64>(problem, product, arguments, target);
    case DataType::kInt32:
      return LaunchFrom<Int32>(problem, product, arguments, target);
    case DataType::kF16:
      return LaunchFrom<F16>(problem, product, arguments, target);
    default:
      return LaunchFrom<F32>(problem, product, arguments, target);
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::epilogue
