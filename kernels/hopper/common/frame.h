// The kernel's frame: which operand gives its rows and which its columns. Host code, pure.
#pragma once

#include <cstdint>

#include "kernels/kernel.h"

namespace gemmd::hopper {

// An operand as lines x K.
struct FrameOperand {
  const void* data = nullptr;
  std::int64_t lines = 0;
  std::int64_t leading_dimension = 0;
  bool is_k_major = false;
};

struct Frame {
  FrameOperand rows;
  FrameOperand columns;
  void* d = nullptr;
  std::int64_t d_row_stride = 0;  // elements, by the kernel's rows
  bool is_swapped = false;        // the kernel's rows are D's columns
};

// D's lines run along the kernel's columns.
inline Frame MakeFrame(const Problem& problem, const Arguments& arguments) {
  Frame frame;
  frame.is_swapped = problem.d.order == Order::kColumnMajor;
  const FrameOperand a = {arguments.a, problem.m, problem.a.leading_dimension,
                          problem.a_is_k_major()};
  const FrameOperand b = {arguments.b, problem.n, problem.b.leading_dimension,
                          problem.b_is_k_major()};
  frame.rows = frame.is_swapped ? b : a;
  frame.columns = frame.is_swapped ? a : b;
  frame.d = arguments.d;
  frame.d_row_stride = frame.is_swapped ? problem.d.column_stride() : problem.d.row_stride();
  return frame;
}

inline std::uint32_t FrameTiles(std::int64_t lines, int tile) {
  return static_cast<std::uint32_t>((lines + tile - 1) / tile);
}

// Returns whether D is more than the rounded sums.
inline bool NeedsEpilogue(const Problem& problem) {
  const Epilogue& epilogue = problem.epilogue;
  return epilogue.alpha != 1 || epilogue.beta != 0 || epilogue.has_bias ||
         epilogue.activation != Activation::kNone || problem.d.type != problem.a.type;
}

}  // namespace gemmd::hopper
