#include "kernels/selection.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text/quoted.h"

namespace gemmd {
namespace {

constexpr char kWrongClass[] = "class fast, and the request asks for batch_invariant";

bool IsBatchInvariant(const Kernel& kernel) {
  return kernel.traits().determinism == Determinism::kBatchInvariant;
}

std::string Rejection(const Kernel& kernel, const Problem& problem, const DeviceTraits& device,
                      bool is_named) {
  std::string reason = kernel.UnavailableReason(device);
  if (reason.empty() && kernel.traits().only_by_name && !is_named) {
    reason = "serves only requests that name it";
  }
  if (reason.empty() && kernel.traits().b_packing != problem.b_packing) {
    reason = problem.b_packing == Packing::kNone
                 ? "takes B that stays on the device, where it is packed"
                 : "takes B as it was sent, and this one is packed";
  }
  if (reason.empty()) reason = kernel.Rejection(problem);
  if (reason.empty()) reason = kernel.DeviceRejection(problem, device);
  return reason;
}

// Returns whether kernels of class fast may serve the request.
bool AdmitsFast(const Problem& problem, const DeviceTraits& device,
                const std::vector<Candidate>& candidates) {
  if (problem.determinism == Determinism::kFast) return true;
  if (device.kind != DeviceKind::kCuda) return false;
  return std::none_of(candidates.begin(), candidates.end(), [](const Candidate& candidate) {
    return candidate.rejection.empty() && IsBatchInvariant(*candidate.kernel);
  });
}

Plan MakePlan(const Kernel& kernel, const Problem& problem, const DeviceTraits& device,
              const Config& config, std::int64_t problems) {
  Plan plan;
  plan.kernel = &kernel;
  plan.config = config;
  plan.predicted_us = kernel.PredictedBatchUs(problem, plan.config, problems, device);
  plan.workspace_bytes = kernel.WorkspaceBytes(problem, plan.config);
  plan.numerics_id = kernel.PlannedNumericsId(problem, plan.config);
  return plan;
}

// Replaces the predicted choice by the measured one where that may serve; see selection.h.
void PreferMeasured(const MeasuredPlan& measured, const Problem& problem,
                    const DeviceTraits& device, std::vector<Candidate>* candidates,
                    Candidate** best) {
  for (Candidate& candidate : *candidates) {
    const Kernel& kernel = *candidate.kernel;
    if (kernel.traits().name != measured.kernel || !candidate.rejection.empty()) continue;
    const std::vector<Config> offered = kernel.Alternatives(problem, device);
    if (std::find(offered.begin(), offered.end(), measured.config) == offered.end()) return;
    Plan plan = MakePlan(kernel, problem, device, measured.config, 1);
    plan.predicted_us = measured.measured_us;
    plan.is_measured = true;
    const bool keeps_bits =
        problem.determinism == Determinism::kBatchInvariant && IsBatchInvariant(*(*best)->kernel);
    if (keeps_bits && plan.numerics_id != (*best)->plan.numerics_id) return;
    candidate.plan = std::move(plan);
    *best = &candidate;
    return;
  }
}

// Returns whether the kernel multiplies operands of these types at all: a reason not to take the
// problem is then about what else was asked for.
bool TakesTypes(const Kernel& kernel, const Problem& problem) {
  constexpr std::int64_t kSide = 256;  // a multiple of every alignment
  const DataType a = problem.a.type;
  for (const DataType output : {DefaultOutputType(a), DataType::kF32}) {
    Problem plain = MakeProblem(kSide, kSide, kSide, a, output, false, true);
    plain.b.type = problem.b.type;
    if (kernel.Rejection(plain).empty()) return true;
  }
  return false;
}

std::string Kernels(int count, absl::string_view what) {
  return absl::StrCat(count, count == 1 ? " kernel " : " kernels ", what);
}

// Why nothing was chosen: the reasons of kernels that could have been, those first that a caller
// can do something about; the others are counted, because ListKernels explains each.
std::string WhyNone(const Problem& problem, const DeviceTraits& device, bool is_named,
                    const std::vector<Candidate>& candidates) {
  std::vector<std::string> class_reasons;
  std::vector<std::string> reasons;
  std::vector<std::string> named_reasons;
  int of_other_devices = 0;
  int of_other_types = 0;
  for (const Candidate& candidate : candidates) {
    const Kernel& kernel = *candidate.kernel;
    std::string reason = absl::StrCat(kernel.traits().name, ": ", candidate.rejection);
    if (is_named) {
      reasons.push_back(std::move(reason));
    } else if (!kernel.UnavailableReason(device).empty()) {
      ++of_other_devices;
    } else if (!TakesTypes(kernel, problem)) {
      ++of_other_types;
    } else if (candidate.rejection == kWrongClass) {
      class_reasons.push_back(std::move(reason));
    } else {
      (kernel.traits().only_by_name ? named_reasons : reasons).push_back(std::move(reason));
    }
  }
  reasons.insert(reasons.begin(), class_reasons.begin(), class_reasons.end());
  reasons.insert(reasons.end(), named_reasons.begin(), named_reasons.end());
  if (reasons.empty()) {
    const bool is_one = problem.a.type == problem.b.type;
    reasons.push_back(absl::StrCat("none there multiplies ", Name(problem.a.type),
                                   is_one ? "" : " by ", is_one ? "" : Name(problem.b.type)));
  }
  if (of_other_types > 0) reasons.push_back(Kernels(of_other_types, "for other operand types"));
  if (of_other_devices > 0) reasons.push_back(Kernels(of_other_devices, "for other devices"));
  return absl::StrJoin(reasons, "; ");
}

}  // namespace

std::vector<Candidate> Explain(const Registry& registry, const Problem& problem,
                               const DeviceTraits& device, absl::string_view kernel_name,
                               const PlanCache* measured, std::int64_t problems) {
  std::vector<Candidate> candidates;
  candidates.reserve(registry.kernels().size());
  for (const auto& kernel : registry.kernels()) {
    if (!kernel_name.empty() && kernel->traits().name != kernel_name) continue;
    Candidate& candidate = candidates.emplace_back();
    candidate.kernel = kernel.get();
    candidate.rejection = Rejection(*kernel, problem, device, !kernel_name.empty());
  }
  const bool admits_fast = AdmitsFast(problem, device, candidates);
  Candidate* best = nullptr;
  for (Candidate& candidate : candidates) {
    if (!candidate.rejection.empty()) continue;
    if (!admits_fast && !IsBatchInvariant(*candidate.kernel)) {
      candidate.rejection = kWrongClass;
      continue;
    }
    candidate.plan = MakePlan(*candidate.kernel, problem, device,
                              candidate.kernel->Configure(problem, device), problems);
    if (best == nullptr || candidate.plan.predicted_us < best->plan.predicted_us) {
      best = &candidate;
    }
  }
  if (best != nullptr && measured != nullptr && problems == 1) {
    if (const std::optional<MeasuredPlan> plan = measured->Find(problem, device)) {
      PreferMeasured(*plan, problem, device, &candidates, &best);
    }
  }
  if (best != nullptr) best->chosen = true;
  return candidates;
}

absl::StatusOr<Plan> Select(const Registry& registry, const Problem& problem,
                            const DeviceTraits& device, absl::string_view kernel_name,
                            const PlanCache* measured, std::int64_t problems) {
  if (!kernel_name.empty() && registry.Find(kernel_name) == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("kernel is ", Quoted(kernel_name),
                                                      ": this server has no kernel of that name"));
  }
  std::vector<Candidate> candidates =
      Explain(registry, problem, device, kernel_name, measured, problems);
  for (Candidate& candidate : candidates) {
    if (candidate.chosen) return std::move(candidate.plan);
  }
  return absl::FailedPreconditionError(
      absl::StrCat("no kernel on ", device.name, " takes ", ToString(problem), " (",
                   WhyNone(problem, device, !kernel_name.empty(), candidates), ")"));
}

std::optional<Plan> SelectForGroups(const Registry& registry, const Problem& problem,
                                    const RowGroups& groups, const DeviceTraits& device,
                                    absl::string_view kernel_name, absl::string_view numerics_id) {
  std::optional<Plan> best;
  for (const auto& kernel : registry.kernels()) {
    if (!kernel_name.empty() && kernel->traits().name != kernel_name) continue;
    if (!kernel->TakesGroups(problem, groups.b_step)) continue;
    if (!Rejection(*kernel, problem, device, !kernel_name.empty()).empty()) continue;
    Plan plan;
    plan.kernel = kernel.get();
    plan.config = kernel->Configure(problem, device);
    plan.predicted_us = kernel->PredictedGroupsUs(problem, plan.config, groups, device);
    plan.workspace_bytes = kernel->WorkspaceBytes(problem, plan.config);
    plan.numerics_id = kernel->PlannedNumericsId(problem, plan.config);
    if (plan.numerics_id != numerics_id) continue;
    if (!best.has_value() || plan.predicted_us < best->predicted_us) best = std::move(plan);
  }
  return best;
}

}  // namespace gemmd
