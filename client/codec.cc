#include "client/codec.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "client/matmul_header.h"
#include "client/wire_types.h"

namespace gemmd::client {
namespace {

void AddPlane(v1::OperandName operand, v1::PlaneName name, const Matrix& matrix, v1::Plane& plane,
              EncodedMatmul& request) {
  const MatrixFormat& format = matrix.format();
  plane.set_type(ToWire(format.type));
  plane.set_rows(format.rows);
  plane.set_columns(format.columns);
  plane.set_order(ToWire(format.order));
  plane.set_leading_dimension(format.leading_dimension);
  request.planes.push_back({operand, name, matrix.shared_bytes()});
  request.payload_bytes += matrix.bytes().size();
}

void AddOperand(v1::OperandName name, const Matrix& data, const std::optional<Matrix>& scales,
                v1::Operand& operand, EncodedMatmul& request) {
  operand.mutable_inline_();
  AddPlane(name, v1::DATA, data, *operand.mutable_data(), request);
  if (scales) AddPlane(name, v1::SCALES, *scales, *operand.mutable_scales(), request);
}

}  // namespace

std::uint64_t ExpectedResult::max_bytes() const {
  constexpr std::uint64_t kLargestElementBytes = 8;
  const std::uint64_t inner = order == Order::kRowMajor ? columns : rows;
  const std::uint64_t outer = order == Order::kRowMajor ? rows : columns;
  const std::uint64_t stride = std::max(inner, leading_dimension);
  const std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();
  if (outer != 0 && stride > largest / kLargestElementBytes / outer) return largest;
  return outer * stride * kLargestElementBytes;
}

ExpectedResult Expect(const MatrixFormat& a, const MatrixFormat& b, const MatmulOptions& options) {
  ExpectedResult expected;
  expected.rows = options.transpose_a ? a.columns : a.rows;
  expected.columns = options.transpose_b ? b.rows : b.columns;
  expected.type = options.output_type;
  expected.order = options.output_order;
  expected.leading_dimension = options.output_leading_dimension;
  return expected;
}

std::shared_ptr<const EncodedMatmul> Encode(MatmulInputs inputs, const MatmulOptions& options) {
  const auto request = std::make_shared<EncodedMatmul>();
  request->expected = Expect(inputs.a.format(), inputs.b.format(), options);
  v1::MatmulHeader& header = request->header;
  SetHeader(options, header);
  AddOperand(v1::A, inputs.a, inputs.a_scales, *header.mutable_a(), *request);
  AddOperand(v1::B, inputs.b, inputs.b_scales, *header.mutable_b(), *request);
  if (inputs.c) AddOperand(v1::C, *inputs.c, std::nullopt, *header.mutable_c(), *request);
  if (inputs.bias) {
    AddOperand(v1::BIAS, *inputs.bias, std::nullopt, *header.mutable_bias(), *request);
  }
  return request;
}

}  // namespace gemmd::client
