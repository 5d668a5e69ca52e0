#include "server/admission/resident_operands.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "server/admission/resident_stack.h"

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

// Compares the call's description of the plane, if there is one, with the plane itself.
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

// Completes what the call says of a plane that scales.
absl::Status CompleteScales(absl::string_view field, const std::optional<MatrixLayout>& is,
                            std::optional<PlaneSpec>* said) {
  if (said->has_value()) {
    if (!is.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, " is set, and the resident operand has none"));
    }
    if (absl::Status s = CheckPlane(field, **said, SpecOf(*is)); !s.ok()) return s;
  }
  said->reset();
  if (is.has_value()) *said = SpecOf(*is);
  return absl::OkStatus();
}

// `form`: of the operand, or of one of its matrices where it is a stack.
absl::Status Complete(absl::string_view field, const OperandForm& form, OperandSpec* spec) {
  const PlaneSpec data = SpecOf(form.data);
  if (spec->has_data) {
    absl::Status s = CheckPlane(absl::StrCat(field, ".data"), spec->data, data);
    if (!s.ok()) return s;
  }
  struct Scaled {
    const char* name;
    std::optional<PlaneSpec>* said;
    const std::optional<MatrixLayout>* is;
  };
  for (const Scaled& plane : {Scaled{"scales", &spec->scales, &form.scales},
                              Scaled{"zero_points", &spec->zero_points, &form.zero_points},
                              Scaled{"tensor_scale", &spec->tensor_scale, &form.tensor_scale},
                              Scaled{"offsets", &spec->offsets, &form.offsets}}) {
    absl::Status s = CompleteScales(absl::StrCat(field, ".", plane.name), *plane.is, plane.said);
    if (!s.ok()) return s;
  }
  if (spec->blocks.has_value() && spec->blocks != form.blocks) {
    return absl::InvalidArgumentError(
        absl::StrCat(field,
                     ".quantization is not that of the resident operand (leave the field "
                     "out to mean that)"));
  }
  spec->data = data;
  if (spec->k_order != nullptr && !AreEqual(spec->k_order, form.k_order)) {
    return absl::InvalidArgumentError(
        absl::StrCat(field,
                     ".k_order is not that of the resident operand (leave the field out to "
                     "mean that)"));
  }
  spec->blocks = form.blocks;
  spec->k_order = form.k_order;
  spec->is_found = true;
  return absl::OkStatus();
}

// Returns whether K lies along the columns of the operand's data.
bool HasKInColumns(const MatmulCall& call, OperandName operand) {
  return operand == OperandName::kA ? !call.transpose_a : call.transpose_b;
}

std::uint64_t StrideOf(const BatchSpec& batch, OperandName operand) {
  switch (operand) {
    case OperandName::kA:
      return batch.a_stride;
    case OperandName::kB:
      return batch.b_stride;
    case OperandName::kC:
      return batch.c_stride;
    case OperandName::kBias:
      return batch.bias_stride;
  }
  return 0;
}

// Completes what the call says of one of a stack's matrices.
absl::Status CompleteMatrix(const MatmulCall& call, OperandName operand, const OperandForm& whole,
                            OperandSpec* spec) {
  const absl::string_view field = Name(operand);
  const std::uint64_t stride = call.batch.has_value() ? StrideOf(*call.batch, operand) : 0;
  if (!spec->has_data) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".data is missing; ", field,
                     " is a resident stack, of which it describes a matrix"));
  }
  absl::StatusOr<MatrixOfStack> one =
      FindMatrix(field, whole, spec->data, HasKInColumns(call, operand));
  if (!one.ok()) return one.status();
  absl::Status status =
      ChooseMatrices(operand, spec->matrix.value_or(0), stride,
                     call.batch.has_value() ? call.batch->count : 1, one->form.data, &one->stack);
  if (!status.ok()) return status;
  spec->stack = one->stack;
  return Complete(field, one->form, spec);
}

// Returns whether the call means the operand as a stack.
bool IsStack(const MatmulCall& call, OperandName operand, const OperandSpec& spec) {
  return spec.matrix.has_value() || (call.batch.has_value() && StrideOf(*call.batch, operand) != 0);
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
    if (spec.source != Source::kResident) continue;
    const auto name = static_cast<OperandName>(i);
    absl::StatusOr<std::shared_ptr<StoredOperand>> operand =
        store->Use(call->tenant, spec.resident, Name(name));
    if (!operand.ok()) {
      // All that is missing is named at once, so that one round of uploads is enough.
      missing = missing.ok() ? operand.status() : MergeMissing(missing, operand.status());
      continue;
    }
    const OperandForm& form = (*operand)->form();
    absl::Status status = IsStack(*call, name, spec) ? CompleteMatrix(*call, name, form, &spec)
                                                     : Complete(Name(name), form, &spec);
    if (!status.ok()) return status;
    found.operands_[i] = *std::move(operand);
    found.stacks_[i] = spec.stack;
  }
  if (!missing.ok()) return missing;
  return found;
}

template <typename Use>
void ResidentOperands::ForEachOnce(Use use) const {
  for (auto each = operands_.begin(); each != operands_.end(); ++each) {
    const bool is_repeated = std::find(operands_.begin(), each, *each) != each;
    if (*each != nullptr && !is_repeated) use(*each);
  }
}

std::vector<const Device*> ResidentOperands::holders() const {
  struct Held {
    const Device* device = nullptr;
    std::uint64_t bytes = 0;
  };
  absl::InlinedVector<Held, 8> held;
  std::uint64_t most = 0;
  ForEachOnce([&](const std::shared_ptr<StoredOperand>& operand) {
    for (const Device* const device : operand->holders()) {
      auto found = std::find_if(held.begin(), held.end(),
                                [device](const Held& each) { return each.device == device; });
      if (found == held.end()) found = held.insert(held.end(), {device, 0});
      found->bytes += operand->size_bytes();
      most = std::max(most, found->bytes);
    }
  });
  std::vector<const Device*> holders;
  for (const Held& each : held) {
    if (each.bytes == most) holders.push_back(each.device);
  }
  return holders;
}

std::vector<std::shared_ptr<StoredOperand>> ResidentOperands::MissingOn(
    const Device& device) const {
  std::vector<std::shared_ptr<StoredOperand>> missing;
  ForEachOnce([&](const std::shared_ptr<StoredOperand>& each) {
    if (!each->is_on(device)) missing.push_back(each);
  });
  return missing;
}

bool ResidentOperands::Has(const OperandPlane& plane) const {
  const StoredOperand* const found = operand(plane.operand);
  return found != nullptr && found->form().plane(plane.name) != nullptr;
}

Residency ResidentOperands::residency(const Device& device) const {
  Residency residency;
  if (device.uses_host_memory()) return residency;
  for (const OperandPlane& each : kOperandPlanes) residency[each.plane] = Has(each);
  return residency;
}

std::uint64_t ResidentOperands::bytes_on(const Device& device) const {
  if (device.uses_host_memory()) return 0;
  std::uint64_t bytes = 0;
  ForEachOnce([&](const std::shared_ptr<StoredOperand>& each) { bytes += each->size_bytes(); });
  return bytes;
}

bool ResidentOperands::may_pack_b(const Problem& problem) const {
  const std::optional<StackSpec>& of_b = stack(OperandName::kB);
  return of_b.has_value() ? MayPack(problem, *of_b) : PackingRejection(problem).empty();
}

absl::Status ResidentOperands::CheckPlaces(const Device& device, const Problem& problem) const {
  if (device.uses_host_memory()) return absl::OkStatus();
  for (const OperandPlane& each : kOperandPlanes) {
    if (!Has(each) || !stack(each.operand).has_value()) continue;
    const absl::StatusOr<ResidentPart::Place> place =
        PlaceOnDevice(device, problem, *stack(each.operand), each);
    if (!place.ok()) return place.status();
  }
  return absl::OkStatus();
}

absl::Status ResidentOperands::PlacePlane(Device* device, const Problem& problem,
                                          const OperandPlane& plane, std::uint64_t* landed_bytes,
                                          Placed* placed) const {
  const std::optional<StackSpec>& of = stack(plane.operand);
  const Problem whole = of.has_value() ? WithStack(problem, plane.operand, *of) : problem;
  absl::StatusOr<StoredOperand::Placed> where =
      operand(plane.operand)
          ->PlaceOn(device, whole, LandedAs(plane.plane, of.has_value()), landed_bytes);
  if (!where.ok()) return where.status();
  if (where->landed == nullptr) {
    const std::uint64_t offset =
        of.has_value() ? PlaceInHost(problem, *of, plane.plane, plane.name).offset : 0;
    placed->buffers[plane.plane] = where->host.data + offset;
    placed->memory.push_back(std::move(where->host));
    return absl::OkStatus();
  }
  placed->resident[plane.plane] = std::move(where->landed);
  if (!of.has_value()) return absl::OkStatus();
  const absl::StatusOr<ResidentPart::Place> place = PlaceOnDevice(*device, problem, *of, plane);
  if (!place.ok()) return place.status();
  placed->resident[plane.plane] =
      std::make_shared<const ResidentPart>(std::move(placed->resident[plane.plane]), *place);
  return absl::OkStatus();
}

absl::StatusOr<ResidentOperands::Placed> ResidentOperands::PlaceOn(
    Device* device, const Problem& problem, std::uint64_t* landed_bytes) const {
  if (absl::Status s = CheckPlaces(*device, problem); !s.ok()) return s;
  Placed placed;
  for (const OperandPlane& each : kOperandPlanes) {
    if (!Has(each)) continue;
    if (absl::Status s = PlacePlane(device, problem, each, landed_bytes, &placed); !s.ok())
      return s;
  }
  const bool has_other_bias = problem.epilogue.has_bias && operand(OperandName::kBias) == nullptr;
  if (has_b() && !has_other_bias) {
    // Works keep what they found, so no other B lies there meanwhile.
    const ResidentOperand* const landed = placed.resident[WorkPlane::kB].get();
    placed.weights_id = reinterpret_cast<std::uintptr_t>(
        landed != nullptr ? landed->data() : placed.buffers[WorkPlane::kB]);
  }
  return placed;
}

}  // namespace gemmd
