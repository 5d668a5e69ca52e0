#include "client/weights/weight_form.h"

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/text/quoted.h"
#include "client/bytes.h"
#include "client/names.h"
#include "client/weights/fnuz.h"
#include "client/weights/gguf/gguf_blocks.h"
#include "client/weights/gguf/gguf_types.h"
#include "client/weights/layers/layer.h"
#include "client/weights/safetensors_types.h"

namespace gemmd::client {
namespace {

const GgufType* FindGgufType(absl::string_view name) {
  for (const GgufType& type : GgufTypes()) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

absl::Status NoForm(const WeightTensor& tensor, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(tensor.type, " has no form here: ", why));
}

// The form by the type alone.
struct TypeForm {
  std::optional<DataType> element;
  absl::string_view format;
};

absl::StatusOr<TypeForm> FormOfType(const WeightTensor& tensor) {
  if (tensor.layer != nullptr) {
    if (!tensor.layer->why.empty()) return NoForm(tensor, tensor.layer->why);
    return TypeForm{std::nullopt, tensor.layer->format};
  }
  if (tensor.is_gguf) {
    const GgufType* const type = FindGgufType(tensor.type);
    if (type == nullptr) return NoForm(tensor, "this version of gemm does not know it");
    if (!type->why.empty()) return NoForm(tensor, type->why);
    return TypeForm{type->element, type->format};
  }
  const SafetensorsType* const type = FindSafetensorsType(tensor.type);
  if (type == nullptr) {
    return NoForm(tensor, "this version of gemm does not know it; little-endian <f4 is closest");
  }
  if (!type->why.empty()) return NoForm(tensor, type->why);
  if (tensor.is_column_major && (!type->element || tensor.shape.size() != 2)) {
    return NoForm(tensor,
                  "it is in Fortran order, in which matrices of floats and int8 alone are read: "
                  "numpy.ascontiguousarray makes another");
  }
  return TypeForm{type->element, type->format};
}

std::uint64_t BytesOf(const OperandPlanes& planes) {
  std::uint64_t bytes = *SizeBytes(planes.data) + *SizeBytes(planes.scales);
  if (planes.zero_points) bytes += *SizeBytes(*planes.zero_points);
  if (planes.tensor_scale) bytes += *SizeBytes(*planes.tensor_scale);
  if (planes.offsets) bytes += *SizeBytes(*planes.offsets);
  return bytes;
}

QuantizedArray EmptyArray(const WeightForm& form) {
  QuantizedArray array;
  array.format_name = form.name;
  array.format = *FindQuantFormat(form.name);
  array.rows = form.rows;
  array.columns = form.columns;
  array.k_axis = KAxis::kColumns;
  return array;
}

// The bytes as codes that are worth themselves.
QuantizedArray UnscaledOf(const WeightForm& form, Bytes codes) {
  constexpr float kOne = 1;
  QuantizedArray array = EmptyArray(form);
  array.codes = std::move(codes);
  array.scales = Bytes(std::string(reinterpret_cast<const char*>(&kOne), sizeof kOne));
  return array;
}

// Codes of FNUZ as F16.
Bytes DecodeFnuz(const Fnuz& fnuz, absl::string_view codes) {
  std::vector<std::uint16_t> values(256);
  for (std::uint32_t code = 0; code < values.size(); ++code) values[code] = fnuz.F16Of(code);
  const std::size_t size = codes.size() * sizeof(std::uint16_t);
  Buffer buffer = Buffer::Allocate(size);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    std::memcpy(buffer.data() + i * sizeof(std::uint16_t),
                &values[static_cast<std::uint8_t>(codes[i])], sizeof(std::uint16_t));
  }
  return std::move(buffer).Freeze(size);
}

}  // namespace

absl::StatusOr<WeightForm> FormOf(const WeightTensor& tensor) {
  const absl::StatusOr<TypeForm> of_type = FormOfType(tensor);
  if (!of_type.ok()) return of_type.status();
  const std::size_t dimensions = tensor.shape.size();
  if (dimensions != 2 && !IsStack(tensor)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "its shape ", ShapeText(tensor.shape), " has ", dimensions,
        dimensions == 1 ? " dimension" : " dimensions", "; a matrix has 2, a stack of them 3"));
  }
  for (const std::uint64_t dimension : tensor.shape) {
    if (dimension >= 1 && dimension <= kMaxDimension) continue;
    return absl::InvalidArgumentError(absl::StrCat("its shape ", ShapeText(tensor.shape), " has ",
                                                   dimension, "; a dimension is 1 to ",
                                                   kMaxDimension));
  }
  WeightForm form;
  form.element = of_type->element;
  form.parts = IsStack(tensor) ? tensor.shape[0] : 0;
  form.rows = tensor.shape[dimensions - 2];
  form.columns = tensor.shape[dimensions - 1];
  if (form.element) {
    form.name = OptionName(Name(*form.element));
    const auto element_bytes = static_cast<std::uint64_t>(SizeBits(*form.element) / 8);
    form.size_bytes = form.rows * form.columns * element_bytes;
    if (form.parts != 0) form.size_bytes *= form.parts;
    return form;
  }
  form.name = std::string(of_type->format);
  form.size_bytes = BytesOf(PlanesOf(EmptyArray(form), Side::kA));
  if (form.parts != 0) form.size_bytes *= form.parts;
  return form;
}

absl::StatusOr<WeightOperand> OperandOf(const WeightTensor& tensor) {
  const absl::StatusOr<WeightForm> form = FormOf(tensor);
  if (!form.ok()) return form.status();
  if (form->parts != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "it is a stack of ", form->parts, " matrices, which go one by one: ", Quoted(tensor.name),
        " and its index, [0] to [", form->parts - 1, "]"));
  }
  if (tensor.layer != nullptr) {
    absl::StatusOr<QuantizedArray> array = DecodeLayer(*tensor.layer, form->rows, form->columns);
    if (!array.ok()) return array.status();
    return WeightOperand(*std::move(array));
  }
  if (!form->element && !tensor.is_gguf) {
    return WeightOperand(UnscaledOf(*form, tensor.bytes));
  }
  if (!form->element) {
    absl::StatusOr<QuantizedArray> array = DecodeGgufBlocks(*FindGgufType(tensor.type), form->rows,
                                                            form->columns, tensor.bytes.view());
    if (!array.ok()) return array.status();
    return WeightOperand(*std::move(array));
  }
  Bytes bytes = tensor.bytes;
  if (const Fnuz* const fnuz = FindFnuz(tensor.type)) bytes = DecodeFnuz(*fnuz, bytes.view());
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.view().data());
  const auto element_bytes = static_cast<std::uintptr_t>(SizeBits(*form->element) / 8);
  // Headers of safetensors may have any length, and code that reads elements needs them aligned.
  if (address % element_bytes != 0) bytes = Bytes(std::string(bytes.view()));
  absl::StatusOr<Matrix> matrix =
      Matrix::Create({*form->element, form->rows, form->columns,
                      tensor.is_column_major ? Order::kColumnMajor : Order::kRowMajor},
                     std::move(bytes));
  if (!matrix.ok()) return matrix.status();
  return WeightOperand(*std::move(matrix));
}

}  // namespace gemmd::client
