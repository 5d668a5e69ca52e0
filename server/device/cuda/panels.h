// A big product in panels of M or of N, never of K: the device computes on what has
// arrived while the rest is under way, and finished panels leave while others compute.
// Pure functions of the problem, so that a result never depends on the load.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/gemm.h"
#include "server/device/cuda/landing.h"

namespace gemmd {

// Rows [m_begin, m_end) by columns [n_begin, n_end) of D.
struct Panel {
  std::int64_t m_begin = 0;
  std::int64_t m_end = 0;
  std::int64_t n_begin = 0;
  std::int64_t n_end = 0;
};

// In order of their work, of at least about `panel_bytes` of the operand that is cut: the
// larger one; the other arrives whole, before it. One panel for what is small, or for a
// kernel whose bits would depend on the cut.
// REQUIRES: landed == LandedProblem(some problem), and the plan was chosen for it.
std::vector<Panel> CutIntoPanels(const Problem& landed, const Residency& resident, const Plan& plan,
                                 std::uint64_t panel_bytes);

// The panel as a problem of its own; its operands start at PanelOffsets().
Problem PanelProblem(const Problem& landed, const Panel& panel);

// What the panels' launches need, one after another.
std::uint64_t PanelWorkspaceBytes(const Problem& landed, const std::vector<Panel>& panels,
                                  const Plan& plan);

// Bytes from the start of each landed plane to the panel's first element.
struct PanelOffsets {
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  std::uint64_t c = 0;
  std::uint64_t bias = 0;
  std::uint64_t d = 0;
  std::uint64_t a_scales = 0;
  std::uint64_t b_scales = 0;
};
PanelOffsets OffsetsOf(const Problem& landed, const Panel& panel);

}  // namespace gemmd
