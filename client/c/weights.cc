// Files of weights, and their tensors.
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/text/quoted.h"
#include "client/c/arguments.h"
#include "client/c/errors.h"
#include "client/c/handles.h"
#include "client/quantized/quantized_array.h"

namespace gemmd::client::c {
namespace {

absl::Status Open(const char* path, gemmd_weights** weights) {
  if (absl::Status s = CheckNotNull("weights", weights); !s.ok()) return s;
  *weights = nullptr;
  if (absl::Status s = CheckNotNull("path", path); !s.ok()) return s;
  absl::StatusOr<WeightFile> file = WeightFile::Open(path);
  if (!file.ok()) return file.status();
  if (file->is_container()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": gemm quantize wrote it: it is one matrix and no file of weights"));
  }
  auto opened = std::make_unique<gemmd_weights>(gemmd_weights{*std::move(file), {}});
  opened->about.reserve(opened->file.tensors().size());
  for (const WeightTensor& tensor : opened->file.tensors()) {
    gemmd_weights::About about;
    absl::StatusOr<WeightForm> form = FormOf(tensor);
    if (!form.ok()) about.refusal = std::string(form.status().message());
    if (form.ok()) about.form = *std::move(form);
    about.shape.assign(tensor.shape.begin(), tensor.shape.end());
    opened->about.push_back(std::move(about));
  }
  *weights = opened.release();
  return absl::OkStatus();
}

absl::Status Describe(const gemmd_weights* weights, std::int64_t index, gemmd_tensor_info* info) {
  if (absl::Status s = CheckNotNull("weights", weights); !s.ok()) return s;
  if (weights->about.empty()) return absl::InvalidArgumentError("index is of a file of no tensors");
  const auto last = static_cast<std::int64_t>(weights->about.size()) - 1;
  if (absl::Status s = CheckRange("index", index, 0, last); !s.ok()) return s;
  const auto at = static_cast<std::size_t>(index);
  const WeightTensor& tensor = weights->file.tensors()[at];
  const gemmd_weights::About& about = weights->about[at];
  gemmd_tensor_info told = GEMMD_TENSOR_INFO_INIT;
  told.name = tensor.name.c_str();
  told.type = tensor.type.c_str();
  told.form = about.form.name.c_str();
  told.refusal = about.refusal.c_str();
  told.shape = about.shape.data();
  told.dimensions = static_cast<std::int32_t>(about.shape.size());
  told.matrices = static_cast<std::int64_t>(about.form.parts);
  told.rows = static_cast<std::int64_t>(about.form.rows);
  told.columns = static_cast<std::int64_t>(about.form.columns);
  told.bytes = static_cast<std::int64_t>(about.form.size_bytes);
  return FillSized("info", told, info);
}

absl::StatusOr<InlineOperand> OperandOfWeight(WeightOperand weight) {
  if (auto* const matrix = std::get_if<Matrix>(&weight)) return InlineOperand(std::move(*matrix));
  const auto& array = std::get<QuantizedArray>(weight);
  return ToOperand(array, SideOf(array.k_axis));
}

absl::Status Read(const gemmd_weights* weights, const char* name, gemmd_tensor** tensor) {
  if (absl::Status s = CheckNotNull("tensor", tensor); !s.ok()) return s;
  *tensor = nullptr;
  if (absl::Status s = CheckNotNull("weights", weights); !s.ok()) return s;
  if (absl::Status s = CheckNotNull("name", name); !s.ok()) return s;
  const absl::StatusOr<WeightTensor> found = weights->file.Find(name);
  if (!found.ok()) return found.status();
  const absl::StatusOr<WeightForm> form = FormOf(*found);
  absl::StatusOr<WeightOperand> weight = client::OperandOf(*found);
  if (!form.ok() || !weight.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        weights->file.path(), ": tensor ", Quoted(found->name), ": ", weight.status().message()));
  }
  absl::StatusOr<InlineOperand> operand = OperandOfWeight(*std::move(weight));
  if (!operand.ok()) return operand.status();
  *tensor = new gemmd_tensor{form->name, *std::move(operand)};
  return absl::OkStatus();
}

absl::Status DescribePlane(const gemmd_tensor* tensor, std::int32_t plane, gemmd_plane* described) {
  if (absl::Status s = CheckNotNull("tensor", tensor); !s.ok()) return s;
  if (absl::Status s = CheckRange("plane", plane, GEMMD_PLANE_DATA, GEMMD_PLANE_K_ORDER); !s.ok()) {
    return s;
  }
  const absl::Status none =
      absl::NotFoundError(absl::StrCat("plane is ", plane, ": the tensor has no such plane"));
  gemmd_plane told = GEMMD_PLANE_INIT;
  if (plane == GEMMD_PLANE_K_ORDER) {
    const KOrder& order = tensor->operand.k_order;
    if (order == nullptr) return none;
    told.data = order->data();
    told.bytes = static_cast<std::int64_t>(order->size() * sizeof(std::uint32_t));
    told.dtype = GEMMD_INT32;
    told.rows = 1;
    told.columns = static_cast<std::int64_t>(order->size());
    return FillSized("described", told, described);
  }
  const Matrix* const matrix = tensor->operand.plane(static_cast<v1::PlaneName>(plane));
  if (matrix == nullptr) return none;
  told.data = matrix->bytes().data();
  told.bytes = static_cast<std::int64_t>(matrix->bytes().size());
  told.dtype = NumberOf(matrix->format().type);
  told.rows = static_cast<std::int64_t>(matrix->format().rows);
  told.columns = static_cast<std::int64_t>(matrix->format().columns);
  told.column_major = matrix->format().order == Order::kColumnMajor;
  return FillSized("described", told, described);
}

}  // namespace
}  // namespace gemmd::client::c

using gemmd::client::c::Guarded;

extern "C" {

gemmd_code gemmd_weights_open(const char* path, gemmd_weights** weights, gemmd_error** error) {
  return Guarded(error, [&] { return gemmd::client::c::Open(path, weights); });
}

const char* gemmd_weights_kind(const gemmd_weights* weights) {
  return weights == nullptr ? "" : gemmd::client::Name(weights->file.kind()).data();
}

int64_t gemmd_weights_count(const gemmd_weights* weights) {
  return weights == nullptr ? 0 : static_cast<int64_t>(weights->about.size());
}

gemmd_code gemmd_weights_info(const gemmd_weights* weights, int64_t index, gemmd_tensor_info* info,
                              gemmd_error** error) {
  return Guarded(error, [&] { return gemmd::client::c::Describe(weights, index, info); });
}

void gemmd_weights_free(gemmd_weights* weights) { delete weights; }

gemmd_code gemmd_weights_read(const gemmd_weights* weights, const char* name, gemmd_tensor** tensor,
                              gemmd_error** error) {
  return Guarded(error, [&] { return gemmd::client::c::Read(weights, name, tensor); });
}

const char* gemmd_tensor_form(const gemmd_tensor* tensor) {
  return tensor == nullptr ? "" : tensor->form.c_str();
}

int64_t gemmd_tensor_rows(const gemmd_tensor* tensor) {
  return tensor == nullptr ? 0 : static_cast<int64_t>(tensor->operand.data.format().rows);
}

int64_t gemmd_tensor_columns(const gemmd_tensor* tensor) {
  return tensor == nullptr ? 0 : static_cast<int64_t>(tensor->operand.data.format().columns);
}

gemmd_code gemmd_tensor_plane(const gemmd_tensor* tensor, int32_t plane, gemmd_plane* described,
                              gemmd_error** error) {
  return Guarded(error, [&] { return gemmd::client::c::DescribePlane(tensor, plane, described); });
}

void gemmd_tensor_free(gemmd_tensor* tensor) { delete tensor; }

}  // extern "C"
