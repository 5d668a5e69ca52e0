// Chooses the kernel that serves a problem on a device, and says why the others do not. Pure
// functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/kernel.h"
#include "kernels/plan_cache.h"
#include "kernels/registry.h"

namespace gemmd {

// Kernel and config chosen for a problem on a device.
struct Plan {
  const Kernel* kernel = nullptr;
  Config config;
  double predicted_us = 0;   // or measured, see Explain()
  bool is_measured = false;  // which of the two
  std::uint64_t workspace_bytes = 0;
  std::string numerics_id;
};

// One registry entry's part in a decision.
struct Candidate {
  const Kernel* kernel = nullptr;
  std::string rejection;  // empty where legal
  Plan plan;              // where legal
  bool chosen = false;
};

// The class of a request binds: one of class batch_invariant is not served by a kernel of
// class fast. There is one exception, on CUDA devices: until kernels of ours cover a problem
// there, one of class fast serves it, and the plan's kernel and the receipt say so.
//
// Considers every kernel of the registry, or only `kernel_name` where it is not
// empty; the fastest legal one by prediction is chosen, the first of equals.
//
// A plan in `measured` (null: none) goes before predictions where its kernel is legal and
// still offers its config. A problem that a batch-invariant kernel was chosen for keeps its
// numerics id: measuring must not change bits there.
//
// `problems` > 1: for a batch of that many equal problems in one Kernel::LaunchBatch().
// predicted_us is then the batch's, and measured plans, which are of one, are passed over.
std::vector<Candidate> Explain(const Registry& registry, const Problem& problem,
                               const DeviceTraits& device, absl::string_view kernel_name = {},
                               const PlanCache* measured = nullptr, std::int64_t problems = 1);

// The chosen candidate's plan.
// FAILED_PRECONDITION: none is legal (the message gives each one's reason), or there
// is no kernel of that name.
absl::StatusOr<Plan> Select(const Registry& registry, const Problem& problem,
                            const DeviceTraits& device, absl::string_view kernel_name = {},
                            const PlanCache* measured = nullptr, std::int64_t problems = 1);

// The quickest plan by which one Kernel::LaunchGroups() takes groups of the problem's rows with
// bits of the numerics id, by prediction; `kernel_name` as Select() has it. Nothing: no kernel
// does.
std::optional<Plan> SelectForGroups(const Registry& registry, const Problem& problem,
                                    const RowGroups& groups, const DeviceTraits& device,
                                    absl::string_view kernel_name, absl::string_view numerics_id);

}  // namespace gemmd
