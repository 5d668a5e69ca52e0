#include "server/rpc/oip/infer_model.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/text/operand_name.h"
#include "base/text/quoted.h"
#include "server/admission/matmul_call.h"
#include "server/admission/quantization.h"
#include "server/rpc/oip/datatypes.h"

namespace gemmd {
namespace {

constexpr absl::string_view kLinear = "linear/";
constexpr std::int64_t kAny = -1;

struct BuiltIn {
  const char* name;
  DataType type;
};
constexpr BuiltIn kBuiltIn[] = {
    {"matmul_fp64", DataType::kF64},  {"matmul_fp32", DataType::kF32},
    {"matmul_fp16", DataType::kF16},  {"matmul_bf16", DataType::kBf16},
    {"matmul_int8", DataType::kInt8},
};

InferModel ModelOf(const BuiltIn& built_in) {
  return {built_in.name, {built_in.type}, std::nullopt};
}

PlaneSpec SpecOf(const MatrixLayout& layout) {
  return {layout.type, static_cast<std::uint64_t>(layout.rows),
          static_cast<std::uint64_t>(layout.columns), layout.order, 0};
}

// Returns whether the operand's blocks lie along its columns, so that it is a B that is transposed
// and no other. Where both are possible it is taken as it lies.
bool IsTransposedAlone(const OperandForm& form) {
  if (!form.scales.has_value()) return false;
  OperandSpec spec;
  spec.data = SpecOf(form.data);
  spec.scales = SpecOf(*form.scales);
  if (form.zero_points.has_value()) spec.zero_points = SpecOf(*form.zero_points);
  if (form.tensor_scale.has_value()) spec.tensor_scale = SpecOf(*form.tensor_scale);
  if (form.offsets.has_value()) spec.offsets = SpecOf(*form.offsets);
  spec.blocks = form.blocks;
  constexpr OperandUse kAsItLies = {false, false};
  constexpr OperandUse kTransposed = {false, true};
  return !CheckScaling("b", spec, kAsItLies).ok() && CheckScaling("b", spec, kTransposed).ok();
}

absl::StatusOr<InferModel> LinearModel(const std::string& name, const OperandForm& form) {
  InferModel model;
  model.name = absl::StrCat(kLinear, name);
  model.resident.emplace();
  model.resident->name = name;
  model.resident->rows = static_cast<std::uint64_t>(form.data.rows);
  model.resident->columns = static_cast<std::uint64_t>(form.data.columns);
  model.resident->is_transposed = IsTransposedAlone(form);
  model.resident->is_scaled = form.scales.has_value();
  const DataType type = form.data.type;
  if (IsQuantizedType(type) && form.scales.has_value()) {
    model.a_types = {DataType::kF32, DataType::kF16, DataType::kBf16, DataType::kInt8};
  } else if (!DatatypeName(type).empty() && type != DataType::kInt32) {
    model.a_types = {type};
  } else {
    return absl::FailedPreconditionError(
        absl::StrCat("model ", Quoted(model.name), " is not ready: its operand is ", Name(type),
                     " without scales, which multiplies its own type alone, and the protocol has "
                     "no datatype for that"));
  }
  return model;
}

absl::Status UnknownModel(absl::string_view name, absl::string_view why) {
  return absl::NotFoundError(
      absl::StrCat("request for unknown model: ", Quoted(name), " is not found", why));
}

// The shape of an input that the model needs, or of D.
std::vector<std::int64_t> ShapeOf(const InferModel& model, InferInput input) {
  if (!model.resident.has_value()) return {kAny, kAny};
  auto inner = static_cast<std::int64_t>(model.resident->rows);
  auto columns = static_cast<std::int64_t>(model.resident->columns);
  if (model.resident->is_transposed) std::swap(inner, columns);
  return {kAny, input == InferInput::kA ? inner : columns};
}

}  // namespace

absl::string_view Name(InferInput input) {
  switch (input) {
    case InferInput::kA:
      return "A";
    case InferInput::kB:
      return "B";
    case InferInput::kC:
      return "C";
    case InferInput::kBias:
      return "BIAS";
    case InferInput::kAScale:
      return "A_SCALE";
    case InferInput::kBScale:
      return "B_SCALE";
  }
  return "?";
}

bool InferModel::has(InferInput input) const {
  const bool takes_int8 =
      std::find(a_types.begin(), a_types.end(), DataType::kInt8) != a_types.end();
  switch (input) {
    case InferInput::kA:
    case InferInput::kC:
    case InferInput::kBias:
      return true;
    case InferInput::kB:
      return !resident.has_value();
    case InferInput::kAScale:
      return takes_int8;
    case InferInput::kBScale:
      return takes_int8 && !resident.has_value();
  }
  return false;
}

DataType InferModel::OutputOf(DataType a, bool is_scaled) const {
  if (a != DataType::kInt8) return a;
  const bool has_scales = is_scaled || (resident.has_value() && resident->is_scaled);
  return has_scales ? DataType::kF32 : DataType::kInt32;
}

std::string InferModel::inputs_text() const {
  std::vector<absl::string_view> names;
  for (const InferInput each : kInferInputs) {
    if (has(each)) names.push_back(Name(each));
  }
  return absl::StrJoin(names, ", ");
}

absl::StatusOr<InferModel> FindModel(OperandStore* store, const Tenant& tenant,
                                     const std::string& name, const std::string& version) {
  if (!version.empty() && version != kModelVersion) {
    return absl::NotFoundError(absl::StrCat("request for unknown model: ", Quoted(name),
                                            " version ", Quoted(version),
                                            " is not found: all models have version 1 alone"));
  }
  if (!absl::StartsWith(name, kLinear)) {
    for (const BuiltIn& each : kBuiltIn) {
      if (name == each.name) return ModelOf(each);
    }
    return UnknownModel(name, "");
  }
  const absl::StatusOr<std::string> operand = OperandOf(name);
  if (!operand.ok()) return operand.status();
  const absl::StatusOr<StoredInfo> info = store->Get(tenant, OperandKey{{}, {}, *operand});
  if (absl::IsNotFound(info.status())) {
    return UnknownModel(name, ": you have no operand of that name here");
  }
  if (!info.ok()) return info.status();
  return LinearModel(*operand, info->form);
}

std::vector<InferModel> BuiltInModels() {
  std::vector<InferModel> models;
  std::transform(std::begin(kBuiltIn), std::end(kBuiltIn), std::back_inserter(models), ModelOf);
  return models;
}

std::vector<ModelIndexRow> ListModels(OperandStore* store, const Tenant& tenant,
                                      const std::vector<std::string>& files, std::size_t most) {
  constexpr std::size_t kPage = 256;
  std::vector<ModelIndexRow> rows;
  for (const BuiltIn& each : kBuiltIn) rows.push_back({each.name, absl::OkStatus()});
  most += rows.size();
  std::set<std::string> unloaded(files.begin(), files.end());
  std::uint64_t after = 0;
  do {
    const auto [infos, next] = store->List(tenant, after, kPage);
    for (const StoredInfo& info : infos) {
      for (const std::string& name : info.names) {
        if (rows.size() == most) return rows;
        rows.push_back({absl::StrCat(kLinear, name), LinearModel(name, info.form).status()});
        unloaded.erase(name);
      }
    }
    after = next;
  } while (after != 0);
  for (const std::string& name : unloaded) {
    if (rows.size() == most) break;
    rows.push_back({absl::StrCat(kLinear, name), absl::UnavailableError("unloaded")});
  }
  return rows;
}

absl::StatusOr<std::string> OperandOf(const std::string& model) {
  if (!absl::StartsWith(model, kLinear)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model_name is ", Quoted(model), "; only models linear/NAME are loaded and unloaded"));
  }
  std::string operand(absl::StripPrefix(model, kLinear));
  if (absl::Status s = CheckOperandName("model_name after linear/", operand); !s.ok()) return s;
  return operand;
}

inference::ModelMetadataResponse MetadataOf(const InferModel& model) {
  inference::ModelMetadataResponse metadata;
  metadata.set_name(model.name);
  metadata.add_versions(std::string(kModelVersion));
  metadata.set_platform("gemmd");
  for (const InferInput each : kInferInputs) {
    if (!model.needs(each)) continue;
    auto* const input = metadata.add_inputs();
    input->set_name(std::string(Name(each)));
    input->set_datatype(std::string(DatatypeName(model.a_types.front())));
    for (const std::int64_t size : ShapeOf(model, each)) input->add_shape(size);
  }
  auto* const d = metadata.add_outputs();
  d->set_name("D");
  d->set_datatype(std::string(DatatypeName(model.OutputOf(model.a_types.front(), false))));
  for (const std::int64_t each : ShapeOf(model, InferInput::kC)) d->add_shape(each);
  return metadata;
}

inference::ModelConfig ConfigOf(const InferModel& model) {
  inference::ModelConfig config;
  config.set_name(model.name);
  config.set_platform("gemmd");
  config.set_backend("gemmd");
  std::vector<absl::string_view> optional;
  for (const InferInput each : kInferInputs) {
    if (model.has(each) && !model.needs(each)) optional.push_back(Name(each));
    if (!model.needs(each)) continue;
    inference::ModelInput* const input = config.add_input();
    input->set_name(std::string(Name(each)));
    input->set_data_type(ConfigTypeOf(model.a_types.front()));
    for (const std::int64_t size : ShapeOf(model, each)) input->add_dims(size);
  }
  (*config.mutable_parameters())["optional_inputs"].set_string_value(absl::StrJoin(optional, ", "));
  inference::ModelOutput* const d = config.add_output();
  d->set_name("D");
  d->set_data_type(ConfigTypeOf(model.OutputOf(model.a_types.front(), false)));
  for (const std::int64_t size : ShapeOf(model, InferInput::kC)) d->add_dims(size);
  // As gemmd schedules: rows over one operand share a launch, and three priorities take turns.
  inference::ModelDynamicBatching* const batching = config.mutable_dynamic_batching();
  batching->set_priority_levels(3);
  batching->set_default_priority_level(2);
  batching->mutable_default_queue_policy()->set_allow_timeout_override(true);
  return config;
}

}  // namespace gemmd
