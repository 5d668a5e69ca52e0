// A big product in panels of M or of N, never of K: the device computes on what has
// arrived while the rest is under way, and finished panels leave while others compute.
// Pure functions of the problem, so that a result never depends on the load.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/gemm.h"
#include "server/device/cuda/planes/landing.h"
#include "server/device/panel.h"

namespace gemmd {

// In order of their work, of at least about `panel_bytes` of the operand that is cut: the
// larger one; the other arrives whole, before it. One panel for what is small, or for a
// kernel whose bits would depend on the cut.
// REQUIRES: landed == LandedProblem(some problem), and the plan was chosen for it.
std::vector<Panel> CutIntoPanels(const Problem& landed, const Residency& resident, const Plan& plan,
                                 std::uint64_t panel_bytes);

// The workspace that the panels' launches need, one after another.
std::uint64_t PanelWorkspaceBytes(const Problem& landed, const std::vector<Panel>& panels,
                                  const Plan& plan);

}  // namespace gemmd
