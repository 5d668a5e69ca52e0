// Random strided batches, and each of their products alone.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "gemmd/v1/gemm.pb.h"
#include "kernels/problem.h"
#include "tests/testing/products/matrices.h"

namespace gemmd::testing {

// A batch of such problems: operands of stride 0 are common, others follow each other, lie apart or
// side by side in the same lines.
struct StridedBatch {
  Problem problem;
  std::int64_t count = 1;
  std::int64_t a_stride = 0;
  std::int64_t b_stride = 0;
  std::int64_t c_stride = 0;
  std::int64_t bias_stride = 0;
  // The planes of all products.
  PlaneBytes a;
  PlaneBytes b;
  PlaneBytes c;
  PlaneBytes bias;
  std::vector<float> a_scales;
  std::vector<float> b_scales;

  // The operands of one product.
  Operands of(std::int64_t index) const;
  // Bytes from one result to the next, as the server sends them back.
  std::uint64_t result_stride() const;
};

// A batch of 1 to `most` problems like this one, whose leading dimensions of A and B may be larger.
StridedBatch RandomBatch(const Problem& like, std::int64_t most, std::uint32_t seed);

// The batch with its operands inline, one chunk each.
v1::MatmulRequest MakeRequest(const StridedBatch& batch);

}  // namespace gemmd::testing
