#include "tests/testing/wire.h"

#include "proto/wire_types.h"

namespace gemmd::testing {
namespace {

void Describe(const MatrixLayout& layout, v1::Plane* plane) {
  plane->set_type(ToWire(layout.type));
  plane->set_rows(layout.rows);
  plane->set_columns(layout.columns);
  plane->set_order(ToWire(layout.order));
  plane->set_leading_dimension(layout.leading_dimension);
}

void Describe(const MatrixLayout& layout, v1::Operand* operand) {
  Describe(layout, operand->mutable_data());
}

void Add(v1::OperandName name, const PlaneBytes& bytes, v1::MatmulRequest* request) {
  v1::Chunk* chunk = request->add_payload();
  chunk->set_operand(name);
  chunk->set_data(bytes.data(), bytes.size());
}

// `is_column`: a vector of scales is one column.
void AddScales(v1::OperandName name, const std::vector<float>& scales, bool is_column,
               v1::Operand* operand, v1::MatmulRequest* request) {
  if (scales.empty()) return;
  const auto count = static_cast<std::int64_t>(scales.size());
  const MatrixLayout layout{DataType::kF32, is_column ? count : 1, is_column ? 1 : count,
                            Order::kRowMajor, is_column ? 1 : count};
  Describe(layout, operand->mutable_scales());
  v1::Chunk* chunk = request->add_payload();
  chunk->set_operand(name);
  chunk->set_plane(v1::SCALES);
  chunk->set_data(scales.data(), scales.size() * sizeof(float));
}

}  // namespace

v1::MatmulRequest MakeRequest(const Problem& problem, const Operands& operands) {
  v1::MatmulRequest request;
  v1::MatmulHeader* header = request.mutable_header();
  const Epilogue& e = problem.epilogue;
  Describe(problem.a, header->mutable_a());
  Describe(problem.b, header->mutable_b());
  Add(v1::A, operands.a, &request);
  Add(v1::B, operands.b, &request);
  if (e.beta != 0) {
    Describe(problem.c, header->mutable_c());
    Add(v1::C, operands.c, &request);
  }
  if (e.has_bias) {
    Describe({problem.d.type, 1, problem.n, Order::kRowMajor, problem.n}, header->mutable_bias());
    Add(v1::BIAS, operands.bias, &request);
  }
  AddScales(v1::A, operands.a_scales, /*is_column=*/true, header->mutable_a(), &request);
  AddScales(v1::B, operands.b_scales, /*is_column=*/false, header->mutable_b(), &request);
  header->set_transpose_a(problem.transpose_a);
  header->set_transpose_b(problem.transpose_b);
  header->set_alpha(e.alpha);
  header->set_beta(e.beta);
  header->set_activation(static_cast<v1::Activation>(e.activation));
  header->set_output_type(ToWire(problem.d.type));
  header->set_output_order(ToWire(problem.d.order));
  header->set_output_leading_dimension(problem.d.leading_dimension);
  return request;
}

v1::MatmulRequest ZeroRequest(std::uint64_t n) {
  const auto size = static_cast<std::int64_t>(n);
  const Problem problem = MakeProblem(size, size, size, DataType::kF32, DataType::kF32);
  v1::MatmulRequest request;
  Describe(problem.a, request.mutable_header()->mutable_a());
  Describe(problem.b, request.mutable_header()->mutable_b());
  const PlaneBytes zeros(problem.a.size_bytes());
  Add(v1::A, zeros, &request);
  Add(v1::B, zeros, &request);
  return request;
}

}  // namespace gemmd::testing
