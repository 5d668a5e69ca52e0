#include "server/rpc/oip/infer_request.h"

#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "base/text/quoted.h"
#include "server/rpc/oip/datatypes.h"

namespace gemmd {
namespace {

using absl::InvalidArgumentError;
using absl::StrCat;
using inference::InferTensorContents;
using WireInput = inference::ModelInferRequest::InferInputTensor;

// Dimensions of a tensor; the last two are a matrix, those before them more rows of it.
constexpr int kMostDimensions = 8;

// Each dimension is less than 2^31, and the rows together too, so that the bits of a matrix fit.
using Wide = unsigned __int128;

std::string ShapeText(const google::protobuf::RepeatedField<std::int64_t>& shape) {
  constexpr int kMost = kMostDimensions + 1;
  if (shape.size() > kMost) return StrCat("of ", shape.size(), " dimensions");
  return StrCat("[", absl::StrJoin(shape, ","), "]");
}

// One input of the request.
struct Tensor {
  const WireInput* wire = nullptr;  // null: it has none of that name
  DataType type = DataType::kF32;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::uint64_t matrices = 1;  // of so many rows and columns
  std::optional<SharedTensor> shared;
  absl::Span<const absl::string_view> pieces;  // its bytes, where it is not shared

  bool is_there() const { return wire != nullptr; }
  std::string shape_text() const { return ShapeText(wire->shape()); }
  Wide elements() const { return Wide{matrices} * rows * columns; }
  Wide bytes() const { return elements() * static_cast<Wide>(SizeBits(type)) / 8; }
};

std::string NumberText(Wide number) {
  constexpr Wide kMost = std::numeric_limits<std::uint64_t>::max();
  return number > kMost ? "more than 2^64" : StrCat(static_cast<std::uint64_t>(number));
}

std::string Called(InferInput input) { return StrCat("input '", Name(input), "'"); }

struct TypedField {
  const char* name;
  int size;
};
std::array<TypedField, 8> TypedFields(const InferTensorContents& contents) {
  return {{{"bool_contents", contents.bool_contents_size()},
           {"int_contents", contents.int_contents_size()},
           {"int64_contents", contents.int64_contents_size()},
           {"uint_contents", contents.uint_contents_size()},
           {"uint64_contents", contents.uint64_contents_size()},
           {"fp32_contents", contents.fp32_contents_size()},
           {"fp64_contents", contents.fp64_contents_size()},
           {"bytes_contents", contents.bytes_contents_size()}}};
}

// Null: the protocol has no typed contents of that type.
const char* TypedFieldOf(DataType type) {
  switch (type) {
    case DataType::kF64:
      return "fp64_contents";
    case DataType::kF32:
      return "fp32_contents";
    case DataType::kInt8:
    case DataType::kInt32:
      return "int_contents";
    default:
      return nullptr;
  }
}

template <typename T, typename Values>
std::string RawOf(const Values& values) {
  std::string bytes(static_cast<std::size_t>(values.size()) * sizeof(T), '\0');
  std::size_t at = 0;
  for (const auto value : values) {
    const T element = static_cast<T>(value);
    std::memcpy(&bytes[at], &element, sizeof(T));
    at += sizeof(T);
  }
  return bytes;
}

class Mapper {
 public:
  Mapper(const inference::ModelInferRequest& request, const PayloadViews& raw,
         const InferModel& model, const RequestLimits& limits, FindRegion find_region)
      : request_(request), raw_(raw), model_(model), limits_(limits), find_region_(find_region) {}

  absl::StatusOr<InferProduct> Map() {
    for (auto step :
         {&Mapper::MapParameters, &Mapper::FindInputs, &Mapper::CheckTypes, &Mapper::CheckShapes,
          &Mapper::FindBytes, &Mapper::MapOperands, &Mapper::MapOutputs}) {
      if (absl::Status s = (this->*step)(); !s.ok()) return s;
    }
    product_.queue_timeout_us = options_.queue_timeout_us;
    product_.answer.model = model_.name;
    product_.answer.id = request_.id();
    product_.answer.wants_receipt = options_.wants_receipt;
    product_.answer.wants_final_response = options_.wants_final_response;
    return std::move(product_);
  }

 private:
  MatmulCall& call() { return product_.call; }
  Tensor& of(InferInput input) { return inputs_[static_cast<std::size_t>(input)]; }

  absl::Status MapParameters() {
    if (request_.id().size() > kMostIdBytes) {
      return InvalidArgumentError(
          StrCat("id has ", request_.id().size(), " bytes; it may have ", kMostIdBytes));
    }
    if (absl::Status s = ReadParameters(request_.parameters(), &call(), &options_); !s.ok()) {
      return s;
    }
    const bool by_default = model_.resident.has_value() && model_.resident->is_transposed;
    call().transpose_b = options_.transpose_b.value_or(by_default);
    return absl::OkStatus();
  }

  absl::Status FindInputs() {
    for (const WireInput& wire : request_.inputs()) {
      Tensor* found = nullptr;
      for (const InferInput each : kInferInputs) {
        if (wire.name() == Name(each) && model_.has(each)) found = &of(each);
      }
      if (found == nullptr) {
        return InvalidArgumentError(StrCat("unexpected inference input ", Quoted(wire.name()),
                                           " for model ", Quoted(model_.name), "; it may have ",
                                           model_.inputs_text()));
      }
      if (found->is_there()) {
        return InvalidArgumentError(StrCat("input ", Quoted(wire.name()), " comes twice"));
      }
      found->wire = &wire;
    }
    for (const InferInput each : kInferInputs) {
      if (!model_.needs(each) || of(each).is_there()) continue;
      return InvalidArgumentError(
          StrCat(Called(each), " is missing, which model ", Quoted(model_.name), " expects"));
    }
    if (!options_.has_beta && of(InferInput::kC).is_there()) call().beta = 1;
    return absl::OkStatus();
  }

  absl::Status CheckType(InferInput input, absl::Span<const DataType> types) {
    Tensor& tensor = of(input);
    if (!tensor.is_there()) return absl::OkStatus();
    const std::optional<DataType> type = DatatypeOf(tensor.wire->datatype());
    for (const DataType each : types) {
      if (type != each) continue;
      tensor.type = each;
      return absl::OkStatus();
    }
    return InvalidArgumentError(
        StrCat("unexpected datatype ", Quoted(tensor.wire->datatype()), " of ", Called(input),
               " for model ", Quoted(model_.name), "; it must be ",
               absl::StrJoin(types, " or ", [](std::string* text, DataType each) {
                 absl::StrAppend(text, std::string(DatatypeName(each)));
               })));
  }

  absl::Status CheckTypes() {
    for (const InferInput each : {InferInput::kA, InferInput::kB}) {
      if (absl::Status s = CheckType(each, model_.a_types); !s.ok()) return s;
    }
    constexpr DataType kScale[] = {DataType::kF32};
    bool is_scaled = false;
    for (const InferInput each : {InferInput::kAScale, InferInput::kBScale}) {
      if (absl::Status s = CheckType(each, kScale); !s.ok()) return s;
      is_scaled = is_scaled || of(each).is_there();
    }
    const DataType a = of(InferInput::kA).type;
    if (of(InferInput::kAScale).is_there() && a != DataType::kInt8) {
      return InvalidArgumentError(StrCat("input 'A_SCALE' comes, and input 'A' is ",
                                         DatatypeName(a), "; INT8 alone has scales"));
    }
    const DataType output[] = {call().output_type.value_or(model_.OutputOf(a, is_scaled))};
    output_ = output[0];
    for (const InferInput each : {InferInput::kC, InferInput::kBias}) {
      if (absl::Status s = CheckType(each, output); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  absl::Status ShapeError(InferInput input, absl::string_view must) {
    return InvalidArgumentError(StrCat("unexpected shape ", of(input).shape_text(), " of ",
                                       Called(input), " for model ", Quoted(model_.name), "; ",
                                       must));
  }

  // Checks the number of dimensions, and each. K of A and B may be 0.
  absl::Status CheckDimensions(InferInput input, int fewest, int most) {
    const auto& shape = of(input).wire->shape();
    if (shape.size() < fewest || shape.size() > most) {
      return ShapeError(input, fewest == most
                                   ? StrCat("it must have ", most, " dimensions")
                                   : StrCat("it must have ", fewest, " to ", most, " dimensions"));
    }
    for (const std::int64_t each : shape) {
      if (each >= 0 && static_cast<std::uint64_t>(each) <= limits_.dimension) continue;
      return ShapeError(input, StrCat("a dimension must be 0 to ", limits_.dimension));
    }
    return absl::OkStatus();
  }

  // The rows that all dimensions but the last are together.
  absl::Status SetMatrix(InferInput input) {
    Tensor& tensor = of(input);
    const auto& shape = tensor.wire->shape();
    tensor.columns = static_cast<std::uint64_t>(shape[shape.size() - 1]);
    tensor.rows = 1;
    for (int i = 0; i + 1 < shape.size(); ++i) {
      tensor.rows *= static_cast<std::uint64_t>(shape[i]);
      if (tensor.rows > limits_.dimension) {
        return ShapeError(input, StrCat("its rows together must be 0 to ", limits_.dimension));
      }
    }
    return absl::OkStatus();
  }

  // The dimensions before those of a matrix.
  absl::Span<const std::int64_t> StackOf(InferInput input) const {
    const auto& shape = inputs_[static_cast<std::size_t>(input)].wire->shape();
    return absl::MakeConstSpan(shape.data(), static_cast<std::size_t>(shape.size() - 2));
  }

  // A stack of matrices that `products` take one by one, or one that all share.
  void SetStack(InferInput input, std::uint64_t products) {
    Tensor& tensor = of(input);
    const auto& shape = tensor.wire->shape();
    tensor.rows = static_cast<std::uint64_t>(shape[shape.size() - 2]);
    tensor.columns = static_cast<std::uint64_t>(shape[shape.size() - 1]);
    tensor.matrices = StackOf(input).empty() ? 1 : products;
  }

  // A product for each matrix of B, of each matrix of A or of one.
  absl::Status SetProducts() {
    const absl::Span<const std::int64_t> stack = StackOf(InferInput::kB);
    if (!StackOf(InferInput::kA).empty() && StackOf(InferInput::kA) != stack) {
      return ShapeError(InferInput::kA,
                        StrCat("B is a stack of shape [", absl::StrJoin(stack, ","),
                               "], and A must be one of as many matrices, or one matrix"));
    }
    std::uint64_t products = 1;
    for (const std::int64_t each : stack) {
      products *= static_cast<std::uint64_t>(each);
      if (products < 1 || products > kMostProducts) {
        return ShapeError(InferInput::kB,
                          StrCat("it must be a stack of 1 to ", kMostProducts, " matrices"));
      }
    }
    for (const InferInput each : {InferInput::kAScale, InferInput::kBScale}) {
      if (!of(each).is_there()) continue;
      return InvalidArgumentError(StrCat(Called(each), " comes, and ", Called(InferInput::kB),
                                         " is a stack; scales are those of one product"));
    }
    SetStack(InferInput::kA, products);
    SetStack(InferInput::kB, products);
    products_ = products;
    return absl::OkStatus();
  }

  absl::Status SetOperands() {
    const bool has_b = of(InferInput::kB).is_there();
    absl::Status status = CheckDimensions(InferInput::kA, 2, kMostDimensions);
    if (status.ok() && has_b) status = CheckDimensions(InferInput::kB, 2, kMostDimensions);
    if (!status.ok()) return status;
    if (has_b && !StackOf(InferInput::kB).empty()) return SetProducts();
    // A stack of matrices A by one B is one of their rows, which a transposed A is not.
    if (call().transpose_a) status = CheckDimensions(InferInput::kA, 2, 2);
    if (status.ok()) status = SetMatrix(InferInput::kA);
    if (!status.ok()) return status;
    if (has_b) return SetMatrix(InferInput::kB);
    of(InferInput::kB).rows = model_.resident->rows;
    of(InferInput::kB).columns = model_.resident->columns;
    return absl::OkStatus();
  }

  // D's: A's rows as they come, or a stack's matrices.
  void SetAnswerShape() {
    auto& shape = product_.answer.shape;
    const auto& of_a = of(InferInput::kA).wire->shape();
    if (products_.has_value()) {
      const absl::Span<const std::int64_t> stack = StackOf(InferInput::kB);
      shape.assign(stack.begin(), stack.end());
      shape.push_back(static_cast<std::int64_t>(m_));
    } else if (call().transpose_a) {
      shape = {of_a[1]};
    } else {
      shape.assign(of_a.begin(), of_a.end() - 1);
    }
    shape.push_back(static_cast<std::int64_t>(n_));
  }

  absl::Status CheckShapes() {
    if (absl::Status s = SetOperands(); !s.ok()) return s;
    const Tensor& a = of(InferInput::kA);
    const Tensor& b = of(InferInput::kB);
    m_ = call().transpose_a ? a.columns : a.rows;
    const std::uint64_t k = call().transpose_a ? a.rows : a.columns;
    n_ = call().transpose_b ? b.rows : b.columns;
    const std::uint64_t inner_of_b = call().transpose_b ? b.columns : b.rows;
    if (k != inner_of_b) {
      return ShapeError(InferInput::kA,
                        StrCat("op(A) is ", m_, " x ", k, " and op(B) is ", inner_of_b, " x ", n_,
                               ": the inner dimensions must be equal"));
    }
    SetAnswerShape();
    for (auto check :
         {&Mapper::CheckC, &Mapper::CheckBias, &Mapper::CheckAScale, &Mapper::CheckBScale}) {
      if (absl::Status s = (this->*check)(); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  bool HasShape(InferInput input, absl::Span<const std::int64_t> shape) {
    const auto& wire = of(input).wire->shape();
    return absl::MakeConstSpan(wire.data(), static_cast<std::size_t>(wire.size())) == shape;
  }

  absl::Status CheckC() {
    Tensor& c = of(InferInput::kC);
    if (!c.is_there()) return absl::OkStatus();
    if (!HasShape(InferInput::kC, product_.answer.shape)) {
      return ShapeError(InferInput::kC, StrCat("it must be D's, [",
                                               absl::StrJoin(product_.answer.shape, ","), "]"));
    }
    c.rows = m_;
    c.columns = n_;
    c.matrices = products_.value_or(1);
    return absl::OkStatus();
  }

  absl::Status CheckBias() {
    Tensor& bias = of(InferInput::kBias);
    if (!bias.is_there()) return absl::OkStatus();
    const auto n = static_cast<std::int64_t>(n_);
    if (!HasShape(InferInput::kBias, {n}) && !HasShape(InferInput::kBias, {1, n})) {
      return ShapeError(InferInput::kBias, StrCat("it must be [", n, "] or [1,", n, "]"));
    }
    bias.rows = 1;
    bias.columns = n_;
    return absl::OkStatus();
  }

  absl::Status CheckAScale() {
    Tensor& scale = of(InferInput::kAScale);
    if (!scale.is_there()) return absl::OkStatus();
    const auto m = static_cast<std::int64_t>(m_);
    scale.columns = 1;
    if (HasShape(InferInput::kAScale, {1}) || HasShape(InferInput::kAScale, {1, 1})) {
      scale.rows = 1;
    } else if (HasShape(InferInput::kAScale, {m}) || HasShape(InferInput::kAScale, {m, 1})) {
      scale.rows = m_;
    } else {
      return ShapeError(InferInput::kAScale, StrCat("it must be [1], or [", m, "] or [", m,
                                                    ",1]: one for each row of op(A)"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckBScale() {
    Tensor& scale = of(InferInput::kBScale);
    if (!scale.is_there()) return absl::OkStatus();
    const auto n = static_cast<std::int64_t>(n_);
    scale.rows = 1;
    if (HasShape(InferInput::kBScale, {1}) || HasShape(InferInput::kBScale, {1, 1})) {
      scale.columns = 1;
    } else if (HasShape(InferInput::kBScale, {n}) || HasShape(InferInput::kBScale, {1, n})) {
      scale.columns = n_;
    } else {
      return ShapeError(InferInput::kBScale, StrCat("it must be [1], or [", n, "] or [1,", n,
                                                    "]: one for each column of op(B)"));
    }
    return absl::OkStatus();
  }

  absl::Status FindBytes() {
    int inline_inputs = 0;
    const WireInput* with_contents = nullptr;
    for (const InferInput each : kInferInputs) {
      Tensor& tensor = of(each);
      if (!tensor.is_there()) continue;
      absl::Status s =
          ReadTensorParameters(Called(each), tensor.wire->parameters(), &tensor.shared);
      if (!s.ok()) return s;
      if (!tensor.shared.has_value()) ++inline_inputs;
      if (!tensor.wire->has_contents()) continue;
      with_contents = tensor.wire;
      if (tensor.shared.has_value()) {
        return InvalidArgumentError(
            StrCat(Called(each), " has contents, and lies in shared memory too"));
      }
    }
    const bool is_raw = request_.raw_input_contents_size() != 0;
    if (is_raw && with_contents != nullptr) {
      return InvalidArgumentError(StrCat("input '", with_contents->name(),
                                         "' has contents, and the request has "
                                         "raw_input_contents too; it may have one of both"));
    }
    if (is_raw && request_.raw_input_contents_size() != inline_inputs) {
      return InvalidArgumentError(StrCat("the request has ", request_.raw_input_contents_size(),
                                         " raw_input_contents; it must "
                                         "have one for each of its ",
                                         inline_inputs, " inputs that are not in shared memory"));
    }
    return is_raw ? FindRawBytes() : FindTypedBytes();
  }

  // Raw contents are in the order of the inputs as they came.
  absl::Status FindRawBytes() {
    int next = 0;
    for (const WireInput& wire : request_.inputs()) {
      for (const InferInput each : kInferInputs) {
        Tensor& tensor = of(each);
        if (tensor.wire != &wire || tensor.shared.has_value()) continue;
        tensor.pieces = raw_.of(request_.raw_input_contents(next++));
        std::uint64_t bytes = 0;
        for (const absl::string_view piece : tensor.pieces) bytes += piece.size();
        if (absl::Status s = CheckBytes(each, bytes); !s.ok()) return s;
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckBytes(InferInput input, std::uint64_t bytes) {
    const Tensor& tensor = of(input);
    if (bytes == tensor.bytes()) return absl::OkStatus();
    return InvalidArgumentError(StrCat(
        "unexpected byte size ", bytes, " of ", Called(input), "; shape ", tensor.shape_text(),
        " of ", DatatypeName(tensor.type), " takes ", NumberText(tensor.bytes())));
  }

  absl::Status FindTypedBytes() {
    for (const InferInput each : kInferInputs) {
      Tensor& tensor = of(each);
      if (!tensor.is_there() || tensor.shared.has_value() || tensor.bytes() == 0) continue;
      absl::StatusOr<std::string> bytes = TypedBytes(each);
      if (!bytes.ok()) return bytes.status();
      product_.typed.push_back(*std::move(bytes));
      product_.typed_views.emplace_back(product_.typed.back());
      tensor.pieces = absl::MakeConstSpan(&product_.typed_views.back(), 1);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> TypedBytes(InferInput input) {
    const Tensor& tensor = of(input);
    const InferTensorContents& contents = tensor.wire->contents();
    const char* const field = TypedFieldOf(tensor.type);
    if (field == nullptr) {
      return InvalidArgumentError(
          StrCat(Called(input), " of ", DatatypeName(tensor.type),
                 " comes without raw_input_contents; the protocol has no typed contents for it"));
    }
    std::uint64_t elements = 0;
    for (const TypedField& each : TypedFields(contents)) {
      if (absl::string_view(each.name) == field) {
        elements = static_cast<std::uint64_t>(each.size);
      } else if (each.size != 0) {
        return InvalidArgumentError(StrCat(Called(input), " has ", each.name, "; of ",
                                           DatatypeName(tensor.type), " it must have ", field));
      }
    }
    if (elements != tensor.elements()) {
      return InvalidArgumentError(StrCat(Called(input), " has ", elements, " elements in ", field,
                                         "; its shape ", tensor.shape_text(), " takes ",
                                         NumberText(tensor.elements())));
    }
    if (tensor.type == DataType::kF64) return RawOf<double>(contents.fp64_contents());
    if (tensor.type == DataType::kF32) return RawOf<float>(contents.fp32_contents());
    if (tensor.type == DataType::kInt32) return RawOf<std::int32_t>(contents.int_contents());
    for (const std::int32_t each : contents.int_contents()) {
      if (each >= -128 && each <= 127) continue;
      return InvalidArgumentError(
          StrCat(Called(input), " has ", each, " in int_contents; INT8 is -128 to 127"));
    }
    return RawOf<std::int8_t>(contents.int_contents());
  }

  absl::Status Place(InferInput input, OperandName operand, PlaneName plane, PlaneSpec* spec) {
    const Tensor& tensor = of(input);
    spec->type = tensor.type;
    spec->rows = tensor.rows;
    spec->columns = tensor.columns;
    if (tensor.shared.has_value()) return CheckBytes(input, tensor.shared->bytes);
    if (tensor.bytes() != 0) product_.payload.push_back({operand, plane, 0, tensor.pieces});
    return absl::OkStatus();
  }

  absl::Status MapOperand(InferInput input, OperandName operand, std::optional<OperandSpec>* to) {
    const Tensor& tensor = of(input);
    if (!tensor.is_there()) return absl::OkStatus();
    OperandSpec& spec = to->emplace();
    if (absl::Status s = Place(input, operand, PlaneName::kData, &spec.data); !s.ok()) return s;
    if (!tensor.shared.has_value()) return absl::OkStatus();
    const absl::StatusOr<std::string> region = find_region_(tensor.shared->region);
    if (!region.ok()) return Annotated(Called(input), region.status());
    spec.source = Source::kShared;
    spec.shared = {*region, tensor.shared->offset};
    return absl::OkStatus();
  }

  static absl::Status Annotated(absl::string_view tensor, const absl::Status& status) {
    return absl::Status(status.code(), StrCat(tensor, ": ", status.message()));
  }

  absl::Status MapScale(InferInput input, InferInput of_input, OperandName operand,
                        std::optional<OperandSpec>* to) {
    if (!of(input).is_there()) return absl::OkStatus();
    const std::optional<SharedTensor>& scale = of(input).shared;
    const std::optional<SharedTensor>& data = of(of_input).shared;
    // A region has the planes of an operand one behind the other (matrix.proto).
    const bool is_behind = scale.has_value() && data.has_value() && scale->region == data->region &&
                           scale->offset == data->offset + data->bytes;
    if (scale.has_value() != data.has_value() || (scale.has_value() && !is_behind)) {
      return InvalidArgumentError(
          StrCat(Called(input), " must come as ", Called(of_input),
                 " does: both in the request, or both in one region, the scales right behind"));
    }
    return Place(input, operand, PlaneName::kScales, &(*to)->scales.emplace());
  }

  absl::Status MapOperands() {
    absl::Status status = MapOperand(InferInput::kA, OperandName::kA, &call().a);
    status.Update(MapScale(InferInput::kAScale, InferInput::kA, OperandName::kA, &call().a));
    if (model_.resident.has_value()) {
      OperandSpec& b = call().b.emplace();
      b.source = Source::kResident;
      b.has_data = false;
      b.resident.name = model_.resident->name;
    } else {
      status.Update(MapOperand(InferInput::kB, OperandName::kB, &call().b));
      status.Update(MapScale(InferInput::kBScale, InferInput::kB, OperandName::kB, &call().b));
    }
    status.Update(MapOperand(InferInput::kC, OperandName::kC, &call().c));
    status.Update(MapOperand(InferInput::kBias, OperandName::kBias, &call().bias));
    if (products_.has_value()) MapStack();
    return status;
  }

  // Matrices of a stack follow each other.
  void MapStack() {
    const auto stride = [this](InferInput input) {
      const Tensor& tensor = of(input);
      return tensor.matrices == 1 ? 0 : tensor.rows * tensor.columns;
    };
    BatchSpec& batch = call().batch.emplace();
    batch.count = *products_;
    batch.a_stride = stride(InferInput::kA);
    batch.b_stride = stride(InferInput::kB);
    batch.c_stride = stride(InferInput::kC);
  }

  absl::Status MapOutputs() {
    if (request_.outputs_size() > 1) {
      return InvalidArgumentError(
          StrCat("the request asks for ", request_.outputs_size(), " outputs; D is the only one"));
    }
    std::optional<SharedTensor>& shared = product_.answer.shared;
    for (const auto& output : request_.outputs()) {
      if (output.name() != "D") {
        return InvalidArgumentError(StrCat("unexpected inference output ", Quoted(output.name()),
                                           " for model ", Quoted(model_.name),
                                           "; D is the only one"));
      }
      absl::Status s = ReadTensorParameters("output 'D'", output.parameters(), &shared);
      if (!s.ok()) return s;
    }
    const Wide bytes =
        Wide{products_.value_or(1)} * m_ * n_ * static_cast<Wide>(SizeBits(output_)) / 8;
    if (shared.has_value()) return MapSharedOutput(bytes);
    if (bytes <= limits_.result_bytes) return absl::OkStatus();
    return InvalidArgumentError(
        StrCat("output 'D' of shape [", absl::StrJoin(product_.answer.shape, ","), "] of ",
               DatatypeName(output_), " does not fit into an answer, which carries at most ",
               limits_.result_bytes, " bytes; let it be written into shared memory"));
  }

  absl::Status MapSharedOutput(Wide bytes) {
    SharedTensor& shared = *product_.answer.shared;
    if (shared.bytes < bytes) {
      return InvalidArgumentError(StrCat("parameter 'shared_memory_byte_size' of output 'D' is ",
                                         shared.bytes, "; shape [",
                                         absl::StrJoin(product_.answer.shape, ","), "] of ",
                                         DatatypeName(output_), " takes more"));
    }
    shared.bytes = static_cast<std::uint64_t>(bytes);
    const absl::StatusOr<std::string> region = find_region_(shared.region);
    if (!region.ok()) return Annotated("output 'D'", region.status());
    call().output = SharedMemorySpec{*region, shared.offset};
    return absl::OkStatus();
  }

  const inference::ModelInferRequest& request_;
  const PayloadViews& raw_;
  const InferModel& model_;
  const RequestLimits& limits_;
  const FindRegion find_region_;
  InferProduct product_;
  InferOptions options_;
  std::array<Tensor, std::size(kInferInputs)> inputs_;
  DataType output_ = DataType::kF32;
  std::uint64_t m_ = 0;
  std::uint64_t n_ = 0;
  std::optional<std::uint64_t> products_;  // absent: one
};

}  // namespace

absl::StatusOr<InferProduct> MapRequest(const inference::ModelInferRequest& request,
                                        const PayloadViews& raw, const InferModel& model,
                                        const RequestLimits& limits, FindRegion find_region) {
  return Mapper(request, raw, model, limits, find_region).Map();
}

}  // namespace gemmd
