#include "server/admission/resident_operands.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace gemmd {
namespace {

PlaneSpec SpecOf(const MatrixLayout& layout) {
  return {layout.type, static_cast<std::uint64_t>(layout.rows),
          static_cast<std::uint64_t>(layout.columns), layout.order, 0};
}

std::string ToText(const PlaneSpec& plane) {
  return absl::StrCat(plane.rows, " x ", plane.columns, " ", Name(plane.type), " ",
                      Name(plane.order));
}

// What the call says of the plane, if anything, against what it is.
absl::Status CheckPlane(absl::string_view field, const PlaneSpec& said, const PlaneSpec& is) {
  const std::uint64_t inner = is.order == Order::kRowMajor ? is.columns : is.rows;
  const bool is_tight = said.leading_dimension == 0 || said.leading_dimension == inner;
  if (said.type == is.type && said.rows == is.rows && said.columns == is.columns &&
      said.order == is.order && is_tight) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", ToText(said),
                   is_tight ? "" : absl::StrCat(" with leading dimension ", said.leading_dimension),
                   "; the resident operand is ", ToText(is),
                   ", tightly packed (leave the field out to mean that)"));
}

absl::Status Complete(absl::string_view field, const OperandForm& form, OperandSpec* spec) {
  const PlaneSpec data = SpecOf(form.data);
  if (spec->has_data) {
    absl::Status s = CheckPlane(absl::StrCat(field, ".data"), spec->data, data);
    if (!s.ok()) return s;
  }
  if (spec->scales.has_value()) {
    if (!form.scales.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ".scales is set, and the resident operand has none"));
    }
    absl::Status s =
        CheckPlane(absl::StrCat(field, ".scales"), *spec->scales, SpecOf(*form.scales));
    if (!s.ok()) return s;
  }
  spec->data = data;
  spec->scales.reset();
  if (form.scales.has_value()) spec->scales = SpecOf(*form.scales);
  spec->is_found = true;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ResidentOperands> ResidentOperands::Find(OperandStore* store, MatmulCall* call) {
  ResidentOperands found;
  if (store == nullptr) return found;
  std::optional<OperandSpec>* const specs[] = {&call->a, &call->b, &call->c, &call->bias};
  absl::Status missing;
  for (std::size_t i = 0; i < kOperandCount; ++i) {
    if (!specs[i]->has_value()) continue;
    OperandSpec& spec = **specs[i];
    if (spec.source != Source::kHandle && spec.source != Source::kDigest) continue;
    const absl::string_view field = Name(static_cast<OperandName>(i));
    absl::StatusOr<std::shared_ptr<StoredOperand>> operand =
        store->Use(call->tenant, spec.resident, field);
    if (!operand.ok()) {
      // All that is missing is told at once, so that one round of uploads is enough.
      missing = missing.ok() ? operand.status() : MergeMissing(missing, operand.status());
      continue;
    }
    if (absl::Status s = Complete(field, (*operand)->form(), &spec); !s.ok()) return s;
    found.operands_[i] = *std::move(operand);
  }
  if (!missing.ok()) return missing;
  return found;
}

Device* ResidentOperands::holder() const {
  for (const OperandName name : {OperandName::kB, OperandName::kA}) {
    if (operand(name) == nullptr) continue;
    if (Device* const device = operand(name)->holder(); device != nullptr) return device;
  }
  return nullptr;
}

Residency ResidentOperands::residency(const Device& device) const {
  Residency residency;
  if (device.uses_host_memory()) return residency;
  const auto has = [this](OperandName name) { return operand(name) != nullptr; };
  const auto has_scales = [this, has](OperandName name) {
    return has(name) && operand(name)->form().scales.has_value();
  };
  residency.a = has(OperandName::kA);
  residency.b = has(OperandName::kB);
  residency.c = has(OperandName::kC);
  residency.bias = has(OperandName::kBias);
  residency.a_scales = has_scales(OperandName::kA);
  residency.b_scales = has_scales(OperandName::kB);
  return residency;
}

absl::StatusOr<ResidentOperands::Placed> ResidentOperands::PlaceOn(
    Device* device, const Problem& problem, std::uint64_t* landed_bytes) const {
  Placed placed;
  absl::Status status;
  // The address in host memory, where the device reads it there.
  const auto place = [&](OperandName name, WorkPlane plane) -> const void* {
    if (!status.ok()) return nullptr;
    absl::StatusOr<StoredOperand::Placed> where =
        operand(name)->PlaceOn(device, problem, plane, landed_bytes);
    status.Update(where.status());
    if (!status.ok()) return nullptr;
    placed.resident.of(plane) = std::move(where->landed);
    if (placed.resident.of(plane) != nullptr) return nullptr;
    placed.memory.push_back(std::move(where->host));
    return placed.memory.back().data;
  };
  const auto factor = [&](OperandName name, WorkPlane data, WorkPlane scales,
                          const void** host_data, const float** host_scales) {
    if (operand(name) == nullptr) return;
    *host_data = place(name, data);
    if (!operand(name)->form().scales.has_value()) return;
    *host_scales = static_cast<const float*>(place(name, scales));
  };
  HostBuffers& buffers = placed.buffers;
  factor(OperandName::kA, WorkPlane::kA, WorkPlane::kAScales, &buffers.a, &buffers.a_scales);
  factor(OperandName::kB, WorkPlane::kB, WorkPlane::kBScales, &buffers.b, &buffers.b_scales);
  if (operand(OperandName::kC) != nullptr) buffers.c = place(OperandName::kC, WorkPlane::kC);
  if (operand(OperandName::kBias) != nullptr) {
    buffers.bias = place(OperandName::kBias, WorkPlane::kBias);
  }
  if (!status.ok()) return status;
  // Works hold what they found, so no other operand has the address meanwhile.
  const bool has_other_bias = problem.epilogue.has_bias && operand(OperandName::kBias) == nullptr;
  if (!has_other_bias) {
    placed.weights_id = reinterpret_cast<std::uintptr_t>(operand(OperandName::kB));
  }
  return placed;
}

}  // namespace gemmd
