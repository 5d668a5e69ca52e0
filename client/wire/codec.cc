#include "client/wire/codec.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/wire/matmul_header.h"
#include "client/wire/wire_types.h"

namespace gemmd::client {
namespace {

constexpr std::uint64_t kLargestElementBytes = 8;

std::uint64_t BytesOf(DataType type) { return static_cast<std::uint64_t>(SizeBits(type) + 7) / 8; }

std::string FieldOf(v1::OperandName name) {
  return absl::AsciiStrToLower(v1::OperandName_Name(name));
}

// Writes one operand into the request, by what it is.
struct Encoder {
  v1::OperandName name;
  Stack stack;
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
    SetOrder(operand.k_order, &wire);
  }

  void operator()(OperandSource&& operand) const {
    wire.set_digest(operand.digest());
    request.sources.push_back(std::move(operand));
  }

  void operator()(const OperandName& operand) const { SetName(operand, &wire); }

  void operator()(const SharedOperand& operand) const {
    SetPlane(operand.data, wire.mutable_data());
    if (operand.scales) SetPlane(*operand.scales, wire.mutable_scales());
    if (operand.zero_points) SetPlane(*operand.zero_points, wire.mutable_zero_points());
    if (operand.tensor_scale) SetPlane(*operand.tensor_scale, wire.mutable_tensor_scale());
    if (operand.offsets) SetPlane(*operand.offsets, wire.mutable_offsets());
    if (operand.blocks) SetBlocks(*operand.blocks, wire.mutable_quantization());
    *wire.mutable_shared() = operand.place.memory;
  }

  void operator()(StackedOperand&& operand) const {
    std::visit(*this, std::move(operand.stack));
    SetPlane(operand.matrix, wire.mutable_data());
    wire.set_matrix(operand.index);
  }

  void AddPlane(v1::PlaneName plane, const Matrix& matrix, v1::Plane* described) const {
    CheckBytes(plane, matrix);
    SetPlane(matrix.format(), described);
    request.planes.push_back({name, plane, matrix.shared_bytes()});
    request.payload_bytes += matrix.bytes().size();
  }

  void CheckBytes(v1::PlaneName plane, const Matrix& matrix) const {
    Stack planes = stack;
    if (plane != v1::DATA && stack.stride != 0) {
      planes.stride = matrix.format().rows * matrix.format().columns;
    }
    const absl::StatusOr<std::uint64_t> bytes = SizeBytes(matrix.format(), planes);
    const std::string field =
        absl::StrCat(FieldOf(name), plane == v1::DATA ? "" : ".",
                     plane == v1::DATA ? "" : absl::AsciiStrToLower(v1::PlaneName_Name(plane)));
    if (!bytes.ok()) {
      request.fault =
          absl::InvalidArgumentError(absl::StrCat(field, ": ", bytes.status().message()));
    } else if (*bytes != matrix.bytes().size()) {
      request.fault = absl::InvalidArgumentError(absl::StrCat(
          field, " has ", matrix.bytes().size(), " bytes: ", ToString(matrix.format(), planes),
          " at stride ", planes.stride, " take ", *bytes));
    }
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
  if (options.batch) {
    expected.products = options.batch->count;
    expected.has_groups = !options.batch->row_ends.empty();
    expected.stride = options.batch->output_stride;
  }
  expected.stays = std::holds_alternative<KeepResult>(options.destination);
  if (const auto* const place = std::get_if<SharedPlace>(&options.destination)) {
    expected.shared = place->bytes;
  }
  return expected;
}

// The bytes that the server may write.
absl::string_view WrittenBy(const ExpectedResult& expected) {
  std::uint64_t bytes = expected.max_bytes();
  if (expected.type) bytes = bytes / kLargestElementBytes * BytesOf(*expected.type);
  return expected.shared->view().substr(0, bytes);
}

bool Overlap(absl::string_view x, absl::string_view y) {
  const std::less<const char*> is_before;
  return is_before(x.data(), y.data() + y.size()) && is_before(y.data(), x.data() + x.size());
}

// The server takes no other D that overlaps with C.
bool IsInPlace(const MatmulInputs& inputs, const MatmulOptions& options) {
  const auto* const d = std::get_if<SharedPlace>(&options.destination);
  const auto* const c = inputs.c ? std::get_if<SharedOperand>(&*inputs.c) : nullptr;
  return d != nullptr && c != nullptr && options.beta != 0 &&
         d->memory.region() == c->place.memory.region() &&
         d->memory.offset_bytes() == c->place.memory.offset_bytes();
}

// An attempt that failed may have written D, and the next one would send that as an operand.
absl::Status CheckDestination(const EncodedMatmul& request) {
  if (!request.expected.shared.has_value()) return absl::OkStatus();
  const absl::string_view d = WrittenBy(request.expected);
  const auto refuse = [&d](absl::string_view operand) {
    return absl::InvalidArgumentError(absl::StrCat(
        "output is up to ", d.size(), " bytes of shared memory, which overlap with ", operand,
        ", which is sent from there: place it as a shared operand, or copy "
        "it; a given output_type bounds D's bytes"));
  };
  for (const PlaneBytes& plane : request.planes) {
    if (!Overlap(d, plane.bytes.view())) continue;
    return refuse(FieldOf(plane.operand));
  }
  for (const OperandSource& source : request.sources) {
    for (const v1::PlaneName name : kPlaneNames) {
      const Matrix* const plane = source.plane(name);
      if (plane != nullptr && Overlap(d, plane->bytes())) return refuse("a resident operand");
    }
  }
  return absl::OkStatus();
}

// A copy of the operand in that order of K. Null: its blocks would be parted, its matrices overlap,
// or K is another.
std::optional<Matrix> InOrder(const InlineOperand& operand, bool k_is_columns,
                              const std::vector<std::uint32_t>& order) {
  const MatrixFormat& format = operand.data.format();
  const std::uint64_t k = k_is_columns ? format.columns : format.rows;
  if (operand.blocks || SizeBits(format.type) < 8 || order.size() != k) return std::nullopt;
  const std::uint64_t element = BytesOf(format.type);
  const Stack& stack = operand.data.stack();
  if (!stack.is_one() && stack.stride * element < operand.data.view().bytes().size()) {
    return std::nullopt;
  }
  std::string bytes(operand.data.bytes());
  const bool k_is_inner = k_is_columns == (format.order == Order::kRowMajor);
  KLines lines;
  lines.element_bytes = element;
  lines.lines = k_is_columns ? format.rows : format.columns;
  lines.line_step = (k_is_inner ? format.stride() : 1) * element;
  lines.k_step = (k_is_inner ? 1 : format.stride()) * element;
  for (std::uint64_t i = 0; i < (stack.is_one() ? 1 : stack.count); ++i) {
    lines.data = bytes.data() + i * stack.stride * element;
    gemmd::PutInOrder(order, lines);
  }
  absl::StatusOr<Matrix> made = Matrix::Create(format, stack, Bytes(std::move(bytes)));
  if (!made.ok()) return std::nullopt;
  return *std::move(made);
}

// An operand that goes along with an order of K needs none where the other one, which goes along
// too, is put in that order here. Where it cannot be, the server says why.
void PutInOrder(const MatmulOptions& options, MatmulInputs& inputs) {
  auto* const a = std::get_if<InlineOperand>(&inputs.a);
  auto* const b = std::get_if<InlineOperand>(&inputs.b);
  if (a == nullptr || b == nullptr || (a->k_order == nullptr) == (b->k_order == nullptr)) return;
  InlineOperand& ordered = a->k_order != nullptr ? *a : *b;
  InlineOperand& other = a->k_order != nullptr ? *b : *a;
  const bool k_is_columns = &other == a ? !options.transpose_a : options.transpose_b;
  std::optional<Matrix> made = InOrder(other, k_is_columns, *ordered.k_order);
  if (!made) return;
  other.data = *std::move(made);
  ordered.k_order = nullptr;
}

}  // namespace

std::uint64_t ExpectedResult::max_bytes() const {
  const std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();
  if (!rows || !columns) return largest;
  const std::uint64_t limit = largest / kLargestElementBytes;
  const std::uint64_t inner = order == Order::kRowMajor ? *columns : *rows;
  const std::uint64_t outer = order == Order::kRowMajor ? *rows : *columns;
  const std::uint64_t line = std::max(inner, leading_dimension);
  if (outer != 0 && line > limit / outer) return largest;
  const std::uint64_t one = outer * line;
  if (products <= 1 || has_groups) return one * kLargestElementBytes;
  const std::uint64_t step = stride == 0 ? one : stride;
  if (step > (limit - one) / (products - 1)) return largest;
  return ((products - 1) * step + one) * kLargestElementBytes;
}

Stack ExpectedResult::StackOf(const MatrixFormat& format) const {
  if (products <= 1 || has_groups) return {};
  return {products, stride == 0 ? format.outer() * format.stride() : stride};
}

std::uint64_t ExpectedResult::answer_bytes() const {
  return comes_along() && rows && columns ? max_bytes() : 0;
}

std::shared_ptr<const EncodedMatmul> Encode(MatmulInputs inputs, const MatmulOptions& options) {
  const auto request = std::make_shared<EncodedMatmul>();
  PutInOrder(options, inputs);
  request->expected = Expect(inputs, options);
  request->is_in_place = IsInPlace(inputs, options);
  v1::MatmulHeader& header = request->header;
  SetHeader(options, header);
  const Batch batch = options.batch.value_or(Batch());
  const auto add = [&](v1::OperandName name, std::uint64_t stride, Operand&& operand,
                       v1::Operand* wire) {
    const Stack stack{batch.count, stride};
    std::visit(Encoder{name, stack, *wire, *request}, std::move(operand));
  };
  add(v1::A, batch.a_stride, std::move(inputs.a), header.mutable_a());
  add(v1::B, batch.b_stride, std::move(inputs.b), header.mutable_b());
  if (inputs.c) add(v1::C, batch.c_stride, *std::move(inputs.c), header.mutable_c());
  if (inputs.bias) add(v1::BIAS, batch.bias_stride, *std::move(inputs.bias), header.mutable_bias());
  if (request->fault.ok()) request->fault = CheckDestination(*request);
  return request;
}

}  // namespace gemmd::client
