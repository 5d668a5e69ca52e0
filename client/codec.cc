#include "client/codec.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "client/matmul_header.h"
#include "client/wire_types.h"

namespace gemmd::client {
namespace {

// Writes one operand into the request, by what it is.
struct Encoder {
  v1::OperandName name;
  v1::Operand& wire;
  EncodedMatmul& request;

  void operator()(const InlineOperand& operand) const {
    wire.mutable_inline_();
    for (const v1::PlaneName plane : kPlaneNames) {
      if (const Matrix* const matrix = operand.plane(plane)) {
        AddPlane(plane, *matrix, MutablePlane(plane, &wire));
      }
    }
    if (operand.blocks) SetBlocks(*operand.blocks, wire.mutable_quantization());
  }

  void operator()(OperandSource&& operand) const {
    wire.set_digest(operand.digest());
    request.sources.push_back(std::move(operand));
  }

  void operator()(const OperandName& operand) const {
    if (operand.digest.empty()) {
      wire.set_handle(operand.handle);
    } else {
      wire.set_digest(operand.digest);
    }
  }

  void operator()(const SharedOperand& operand) const {
    SetPlane(operand.data, wire.mutable_data());
    if (operand.scales) SetPlane(*operand.scales, wire.mutable_scales());
    if (operand.zero_points) SetPlane(*operand.zero_points, wire.mutable_zero_points());
    if (operand.tensor_scale) SetPlane(*operand.tensor_scale, wire.mutable_tensor_scale());
    if (operand.blocks) SetBlocks(*operand.blocks, wire.mutable_quantization());
    *wire.mutable_shared() = operand.place.memory;
  }

  void AddPlane(v1::PlaneName plane, const Matrix& matrix, v1::Plane* described) const {
    SetPlane(matrix.format(), described);
    request.planes.push_back({name, plane, matrix.shared_bytes()});
    request.payload_bytes += matrix.bytes().size();
  }
};

ExpectedResult Expect(const MatmulInputs& inputs, const MatmulOptions& options) {
  ExpectedResult expected;
  if (const MatrixFormat* const a = FormatOf(inputs.a)) {
    expected.rows = options.transpose_a ? a->columns : a->rows;
  }
  if (const MatrixFormat* const b = FormatOf(inputs.b)) {
    expected.columns = options.transpose_b ? b->rows : b->columns;
  }
  expected.type = options.output_type;
  expected.order = options.output_order;
  expected.leading_dimension = options.output_leading_dimension;
  expected.stays = std::holds_alternative<KeepResult>(options.destination);
  if (const auto* const place = std::get_if<SharedPlace>(&options.destination)) {
    expected.shared = place->bytes;
  }
  return expected;
}

}  // namespace

std::uint64_t ExpectedResult::max_bytes() const {
  constexpr std::uint64_t kLargestElementBytes = 8;
  const std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();
  if (!rows || !columns) return largest;
  const std::uint64_t inner = order == Order::kRowMajor ? *columns : *rows;
  const std::uint64_t outer = order == Order::kRowMajor ? *rows : *columns;
  const std::uint64_t stride = std::max(inner, leading_dimension);
  if (outer != 0 && stride > largest / kLargestElementBytes / outer) return largest;
  return outer * stride * kLargestElementBytes;
}

std::uint64_t ExpectedResult::answer_bytes() const {
  return comes_along() && rows && columns ? max_bytes() : 0;
}

std::shared_ptr<const EncodedMatmul> Encode(MatmulInputs inputs, const MatmulOptions& options) {
  const auto request = std::make_shared<EncodedMatmul>();
  request->expected = Expect(inputs, options);
  v1::MatmulHeader& header = request->header;
  SetHeader(options, header);
  const auto add = [&request](v1::OperandName name, Operand&& operand, v1::Operand* wire) {
    std::visit(Encoder{name, *wire, *request}, std::move(operand));
  };
  add(v1::A, std::move(inputs.a), header.mutable_a());
  add(v1::B, std::move(inputs.b), header.mutable_b());
  if (inputs.c) add(v1::C, *std::move(inputs.c), header.mutable_c());
  if (inputs.bias) add(v1::BIAS, *std::move(inputs.bias), header.mutable_bias());
  return request;
}

}  // namespace gemmd::client
