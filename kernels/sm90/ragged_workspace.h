// Where the ragged product keeps A, aligned. Host code, pure.
#pragma once

#include <cstdint>

#include "kernels/problem.h"

namespace gemmd::sm90 {

// Elements from line to line: 128 bytes, because a box row that begins elsewhere touches two lines
// of the L2.
inline std::int64_t RaggedPitch(const Problem& problem) { return (problem.k + 63) / 64 * 64; }

inline std::uint64_t RaggedWorkspaceBytes(const Problem& problem) {
  return static_cast<std::uint64_t>(problem.m) * static_cast<std::uint64_t>(RaggedPitch(problem)) *
         2;
}

}  // namespace gemmd::sm90
