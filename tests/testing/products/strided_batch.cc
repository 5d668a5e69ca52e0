#include "tests/testing/products/strided_batch.h"

#include <algorithm>
#include <cstring>

#include "tests/testing/wire.h"

namespace gemmd::testing {
namespace {

std::size_t Bytes(const MatrixLayout& layout, std::int64_t elements) {
  return static_cast<std::size_t>(elements * SizeBits(layout.type) / 8);
}

// Draws the stride, and may widen the lines so that matrices lie beside each other.
std::int64_t DrawStride(std::int64_t count, MatrixLayout* layout, std::mt19937* random) {
  const auto draw = [random](int n) { return static_cast<int>((*random)() % n); };
  const std::int64_t tight = layout->outer() * layout->leading_dimension;
  switch (draw(4)) {
    case 0:
      return 0;
    case 1:
      return tight + 8 * draw(5);
    case 2: {
      const std::int64_t stride = layout->inner() + draw(3);
      layout->leading_dimension = count * stride + draw(2);
      return stride;
    }
    default:
      return tight;
  }
}

// As the first of `count` matrices, which begin `stride` elements apart.
PlaneBytes DrawPlane(const MatrixLayout& layout, std::int64_t count, std::int64_t stride,
                     std::uint32_t seed) {
  const auto elements = static_cast<std::int64_t>(layout.size_bytes() * 8 / SizeBits(layout.type)) +
                        (count - 1) * stride;
  return RandomPlane({layout.type, 1, elements, Order::kRowMajor, elements}, Distribution::kNormal,
                     seed);
}

PlaneBytes PartOf(const PlaneBytes& all, const MatrixLayout& layout, std::int64_t first) {
  if (all.empty()) return {};
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(Bytes(layout, first));
  return PlaneBytes(begin, begin + static_cast<std::ptrdiff_t>(layout.size_bytes()));
}

std::vector<float> Repeated(const std::vector<float>& of_one, std::int64_t times) {
  std::vector<float> all;
  for (std::int64_t i = 0; i < times; ++i) {
    // No two products have the same.
    for (const float scale : of_one) all.push_back(scale * static_cast<float>(i + 1));
  }
  return all;
}

std::vector<float> PartOf(const std::vector<float>& all, std::size_t count, std::int64_t index,
                          std::int64_t stride) {
  const auto begin = all.begin() + (stride == 0 ? 0 : index * static_cast<std::int64_t>(count));
  return std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(count));
}

MatrixLayout BiasOf(const Problem& problem) {
  return {problem.d.type, 1, problem.n, Order::kRowMajor, problem.n};
}

}  // namespace

StridedBatch RandomBatch(const Problem& like, std::int64_t most, std::uint32_t seed) {
  std::mt19937 random(seed);
  StridedBatch batch;
  batch.problem = like;
  Problem& problem = batch.problem;
  batch.count = 1 + static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(most));
  batch.a_stride = DrawStride(batch.count, &problem.a, &random);
  batch.b_stride = DrawStride(batch.count, &problem.b, &random);
  batch.a = DrawPlane(problem.a, batch.count, batch.a_stride, random());
  batch.b = DrawPlane(problem.b, batch.count, batch.b_stride, random());
  if (problem.epilogue.beta != 0) {
    batch.c_stride = DrawStride(batch.count, &problem.c, &random);
    batch.c = DrawPlane(problem.c, batch.count, batch.c_stride, random());
  }
  if (problem.epilogue.has_bias) {
    batch.bias_stride = random() % 2 == 0 ? 0 : problem.n + static_cast<std::int64_t>(random() % 3);
    batch.bias = DrawPlane(BiasOf(problem), batch.count, batch.bias_stride, random());
  }
  const Operands one(problem, Distribution::kNormal, random());
  batch.a_scales = Repeated(one.a_scales, batch.a_stride == 0 ? 1 : batch.count);
  batch.b_scales = Repeated(one.b_scales, batch.b_stride == 0 ? 1 : batch.count);
  return batch;
}

Operands StridedBatch::of(std::int64_t index) const {
  Operands one(problem, Distribution::kNormal, 0);
  one.a = PartOf(a, problem.a, index * a_stride);
  one.b = PartOf(b, problem.b, index * b_stride);
  one.c = PartOf(c, problem.c, index * c_stride);
  one.bias = PartOf(bias, BiasOf(problem), index * bias_stride);
  one.a_scales = PartOf(a_scales, one.a_scales.size(), index, a_stride);
  one.b_scales = PartOf(b_scales, one.b_scales.size(), index, b_stride);
  return one;
}

std::uint64_t StridedBatch::result_stride() const {
  return Bytes(problem.d, problem.d.outer() * problem.d.leading_dimension);
}

v1::MatmulRequest MakeRequest(const StridedBatch& batch) {
  v1::MatmulRequest request = MakeRequest(batch.problem, batch.of(0));
  for (v1::Chunk& chunk : *request.mutable_payload()) {
    const auto set = [&chunk](const auto& values) {
      chunk.set_data(values.data(), values.size() * sizeof(values[0]));
    };
    const bool is_data = chunk.plane() == v1::DATA;
    if (chunk.operand() == v1::A) is_data ? set(batch.a) : set(batch.a_scales);
    if (chunk.operand() == v1::B) is_data ? set(batch.b) : set(batch.b_scales);
    if (chunk.operand() == v1::C) set(batch.c);
    if (chunk.operand() == v1::BIAS) set(batch.bias);
  }
  v1::StridedBatch* const wire = request.mutable_header()->mutable_batch();
  wire->set_count(static_cast<std::uint64_t>(batch.count));
  wire->set_a_stride(static_cast<std::uint64_t>(batch.a_stride));
  wire->set_b_stride(static_cast<std::uint64_t>(batch.b_stride));
  wire->set_c_stride(static_cast<std::uint64_t>(batch.c_stride));
  wire->set_bias_stride(static_cast<std::uint64_t>(batch.bias_stride));
  return request;
}

}  // namespace gemmd::testing
