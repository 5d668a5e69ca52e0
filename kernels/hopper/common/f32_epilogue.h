// The part of a product's parameters that describes D and the epilogue. Host code.
#pragma once

#include "kernels/hopper/common/f32_params.h"
#include "kernels/hopper/common/frame.h"
#include "kernels/kernel.h"

namespace gemmd::hopper {
inline namespace GEMMD_BACKEND {

inline void SetEpilogue(const Problem& problem, const Arguments& arguments, F32Params* params) {
  const Epilogue& epilogue = problem.epilogue;
  params->d = static_cast<float*>(arguments.d);
  params->d_row_stride = problem.d.column_stride();
  params->d_column_stride = problem.d.row_stride();
  params->has_epilogue = NeedsEpilogue(problem);
  if (epilogue.beta != 0) params->c = static_cast<const float*>(arguments.c);
  params->c_row_stride = problem.c.column_stride();
  params->c_column_stride = problem.c.row_stride();
  if (epilogue.has_bias) params->bias = static_cast<const float*>(arguments.bias);
  params->alpha = static_cast<float>(epilogue.alpha);
  params->beta = static_cast<float>(epilogue.beta);
  params->activation = epilogue.activation;
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper
