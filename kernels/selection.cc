#include "kernels/selection.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace gemmd {
namespace {

std::string Rejection(const Kernel& kernel, const Problem& problem, const DeviceTraits& device) {
  std::string reason = kernel.UnavailableReason(device);
  if (!reason.empty()) return reason;
  if (problem.determinism == Determinism::kBatchInvariant &&
      kernel.traits().determinism != Determinism::kBatchInvariant) {
    return "class fast, and the request asks for batch_invariant";
  }
  return kernel.Rejection(problem);
}

Plan MakePlan(const Kernel& kernel, const Problem& problem, const DeviceTraits& device) {
  Plan plan;
  plan.kernel = &kernel;
  plan.config = kernel.Configure(problem, device);
  plan.predicted_us = kernel.PredictedUs(problem, plan.config, device);
  plan.workspace_bytes = kernel.WorkspaceBytes(problem, plan.config);
  plan.numerics_id = kernel.NumericsId(problem);
  return plan;
}

}  // namespace

std::vector<Candidate> Explain(const Registry& registry, const Problem& problem,
                               const DeviceTraits& device, absl::string_view kernel_name) {
  std::vector<Candidate> candidates;
  Candidate* best = nullptr;
  candidates.reserve(registry.kernels().size());  // `best` points into it
  for (const auto& kernel : registry.kernels()) {
    if (!kernel_name.empty() && kernel->traits().name != kernel_name) continue;
    Candidate& candidate = candidates.emplace_back();
    candidate.kernel = kernel.get();
    candidate.rejection = Rejection(*kernel, problem, device);
    if (!candidate.rejection.empty()) continue;
    candidate.plan = MakePlan(*kernel, problem, device);
    if (best == nullptr || candidate.plan.predicted_us < best->plan.predicted_us) {
      best = &candidate;
    }
  }
  if (best != nullptr) best->chosen = true;
  return candidates;
}

absl::StatusOr<Plan> Select(const Registry& registry, const Problem& problem,
                            const DeviceTraits& device, absl::string_view kernel_name) {
  if (!kernel_name.empty() && registry.Find(kernel_name) == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("kernel is \"", kernel_name, "\": this server has no kernel of that name"));
  }
  std::vector<std::string> reasons;
  for (Candidate& candidate : Explain(registry, problem, device, kernel_name)) {
    if (candidate.chosen) return std::move(candidate.plan);
    reasons.push_back(absl::StrCat(candidate.kernel->traits().name, ": ", candidate.rejection));
  }
  return absl::FailedPreconditionError(absl::StrCat("no kernel on ", device.name, " takes ",
                                                    ToString(problem), " (",
                                                    absl::StrJoin(reasons, "; "), ")"));
}

}  // namespace gemmd
