// Where the ragged products keep aligned copies. Host code, pure.
#pragma once

#include <cstdint>

#include "kernels/kernel.h"

namespace gemmd::sm90 {

// Elements from line to line: 128 bytes, because a box row that begins elsewhere touches two lines
// of the L2.
inline std::int64_t RaggedPitch(const Problem& problem) { return (problem.k + 63) / 64 * 64; }

inline std::uint64_t RaggedPlaneBytes(const Problem& problem, std::int64_t lines) {
  return static_cast<std::uint64_t>(lines) * static_cast<std::uint64_t>(RaggedPitch(problem)) * 2;
}

inline bool AreLinesAligned(const void* data, const MatrixLayout& layout) {
  return layout.leading_dimension % 8 == 0 && reinterpret_cast<std::uint64_t>(data) % 16 == 0;
}

// The operands that are copied, A before B.
struct RaggedCopies {
  bool a = false;
  bool b = false;
};

// The problem as a kernel of aligned lines takes it, D as it was, and where its operands are.
struct AlignedProblem {
  RaggedCopies copies;
  Problem problem;
  Arguments arguments;
};

inline AlignedProblem AlignLines(const Problem& problem, const Arguments& arguments) {
  AlignedProblem aligned;
  aligned.problem = problem;
  aligned.arguments = arguments;
  aligned.copies = {!AreLinesAligned(arguments.a, problem.a),
                    !AreLinesAligned(arguments.b, problem.b)};
  if (aligned.copies.a) {
    aligned.arguments.a = arguments.workspace;
    aligned.arguments.a_is_settled = false;
    aligned.problem.a.leading_dimension = RaggedPitch(problem);
  }
  if (aligned.copies.b) {
    aligned.arguments.b =
        static_cast<const char*>(arguments.workspace) + RaggedPlaneBytes(problem, problem.m);
    aligned.arguments.b_is_settled = false;
    aligned.problem.b.leading_dimension = RaggedPitch(problem);
  }
  return aligned;
}

}  // namespace gemmd::sm90
