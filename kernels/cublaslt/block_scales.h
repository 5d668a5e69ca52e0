// Scales of blocks of 128 in the order in which cuBLASLt reads them: those of 1x128 blocks along
// lines (CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F), those of 128x128 blocks along K
// (CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F). Scales in the other order are transposed into the
// workspace.
//
// Source: cuBLAS documentation, "128-element 1D and 128x128 2D Block Scaling For FP8 Data Types".
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "kernels/kernel.h"

namespace gemmd::cublaslt {

// Why the library does not take the problem's scales, in one line; empty if it does.
std::string BlockScalesRejection(const Problem& problem);

// The following REQUIRE BlockScalesRejection() to be empty.

// Bytes of the workspace for scales that are transposed: a multiple of 256.
std::uint64_t BlockScalesBytes(const Problem& problem);

struct BlockScales {
  const float* a = nullptr;
  const float* b = nullptr;
};

// Sets `scales` to where the library finds them: where they lie, or in `workspace`, into which
// they are transposed in the target's stream. Errors as LaunchTranspose()'s.
absl::Status ArrangeBlockScales(const Problem& problem, const Arguments& arguments, void* workspace,
                                const LaunchTarget& target, BlockScales* scales);

}  // namespace gemmd::cublaslt
