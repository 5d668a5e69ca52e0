// Problems as requests, and answers as matrices.
#pragma once

#include "gemmd/v1/gemm.pb.h"
#include "kernels/kernel.h"
#include "tests/testing/products/matrices.h"

namespace gemmd::testing {

// The problem with its operands inline, one chunk each.
v1::MatmulRequest MakeRequest(const Problem& problem, const Operands& operands);

// n x n f32 operands of zeros.
v1::MatmulRequest ZeroRequest(std::uint64_t n);

}  // namespace gemmd::testing
