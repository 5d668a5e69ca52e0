// Where the ragged products keep aligned copies. Host code, pure.
#pragma once

#include <cstdint>

#include "kernels/kernel.h"

namespace gemmd::hopper::ragged {

// Elements from line to line: 128 bytes, because a box row that begins elsewhere touches two lines
// of the L2.
inline std::int64_t PlanePitch(const Problem& problem) { return (problem.k + 63) / 64 * 64; }

inline std::uint64_t PlaneBytes(const Problem& problem, std::int64_t lines) {
  return static_cast<std::uint64_t>(lines) * static_cast<std::uint64_t>(PlanePitch(problem)) * 2;
}

inline bool AreLinesAligned(const void* data, const MatrixLayout& layout) {
  return layout.leading_dimension % 8 == 0 && reinterpret_cast<std::uint64_t>(data) % 16 == 0;
}

// The operands that are copied, A before B.
struct Copies {
  bool a = false;
  bool b = false;
};

// The problem as a kernel of aligned lines takes it, D as it was, and where its operands are.
struct AlignedProblem {
  Copies copies;
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
    aligned.problem.a.leading_dimension = PlanePitch(problem);
  }
  if (aligned.copies.b) {
    aligned.arguments.b =
        static_cast<const char*>(arguments.workspace) + PlaneBytes(problem, problem.m);
    aligned.arguments.b_is_settled = false;
    aligned.problem.b.leading_dimension = PlanePitch(problem);
  }
  return aligned;
}

}  // namespace gemmd::hopper::ragged
