// The operands of a problem as lines of K elements.
#pragma once

#include "base/numbers/quant/quantize.h"
#include "kernels/kernel.h"

namespace gemmd {

// Rows of op(A), where they lie in host memory.
inline QuantizedView ViewOfA(const Problem& problem, const Arguments& arguments) {
  QuantizedView view;
  view.format = {problem.a.type, problem.a_scaling};
  view.lines = problem.m;
  view.k = problem.k;
  view.codes = arguments.a;
  view.line_stride = problem.a_row_stride();
  view.k_stride = problem.a_inner_stride();
  view.scales = arguments.a_scales;
  view.zero_points = arguments.a_zero_points;
  view.offsets = arguments.a_offsets;
  view.scale_lines = problem.a_scale_lines;
  if (problem.a_scaling.has_tensor_scale) view.tensor_scale = *arguments.a_tensor_scale;
  return view;
}

// Columns of op(B).
inline QuantizedView ViewOfB(const Problem& problem, const Arguments& arguments) {
  QuantizedView view;
  view.format = {problem.b.type, problem.b_scaling};
  view.lines = problem.n;
  view.k = problem.k;
  view.codes = arguments.b;
  view.line_stride = problem.b_column_stride();
  view.k_stride = problem.b_inner_stride();
  view.scales = arguments.b_scales;
  view.zero_points = arguments.b_zero_points;
  view.offsets = arguments.b_offsets;
  view.scale_lines = problem.b_scale_lines;
  if (problem.b_scaling.has_tensor_scale) view.tensor_scale = *arguments.b_tensor_scale;
  return view;
}

}  // namespace gemmd
