// Where a product's result goes: host code that all kernels here share.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/hopper/quant/params.h"
#include "kernels/kernel.h"
#include "kernels/ptx/launch.h"

namespace gemmd::hopper::quant {
inline namespace GEMMD_BACKEND {

inline bool HasEpilogue(const Epilogue& epilogue) {
  return epilogue.alpha != 1 || epilogue.beta != 0 || epilogue.has_bias ||
         epilogue.activation != Activation::kNone;
}

inline void SetResult(const Problem& problem, const Arguments& arguments, QuantParams* params) {
  params->m = static_cast<std::int32_t>(problem.m);
  params->n = static_cast<std::int32_t>(problem.n);
  params->d = arguments.d;
  params->d_row_stride = problem.d.row_stride();
  params->d_column_stride = problem.d.column_stride();
  params->d_type = problem.d.type;
  params->has_epilogue = HasEpilogue(problem.epilogue);
  params->c = problem.epilogue.beta != 0 ? arguments.c : nullptr;
  params->c_row_stride = problem.c.row_stride();
  params->c_column_stride = problem.c.column_stride();
  params->bias = problem.epilogue.has_bias ? arguments.bias : nullptr;
  params->alpha = static_cast<float>(problem.epilogue.alpha);
  params->beta = static_cast<float>(problem.epilogue.beta);
  params->activation = problem.epilogue.activation;
}

inline std::vector<ptx::DeviceBuffer> ResultBuffers(const Problem& problem,
                                                    const Arguments& arguments) {
  std::vector<ptx::DeviceBuffer> buffers = {{arguments.d, problem.d.size_bytes(), "D", false}};
  if (problem.epilogue.beta != 0) {
    buffers.push_back({arguments.c, problem.c.size_bytes(), "C"});
  }
  if (problem.epilogue.has_bias) {
    const auto element = static_cast<std::uint64_t>(SizeBits(problem.d.type)) / 8;
    buffers.push_back({arguments.bias, static_cast<std::uint64_t>(problem.n) * element, "bias"});
  }
  return buffers;
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::quant
