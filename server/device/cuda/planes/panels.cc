#include "server/device/cuda/planes/panels.h"

#include <algorithm>

namespace gemmd {
namespace {

constexpr std::int64_t kMaxPanels = 8;
// Rows or columns of the smallest panels: a multiple of every kernel's tile. The time that one tile
// takes is that of copying 170 rows of bf16, 480 of f64 or 540 of f32 to an H200: smaller panels
// would be computed later than they come.
std::int64_t PanelStep(DataType type) { return SizeBits(type) < 32 ? 256 : 512; }

std::vector<Panel> Cut(const Problem& landed, bool cut_rows, std::int64_t count) {
  const std::int64_t size = cut_rows ? landed.m : landed.n;
  const std::int64_t least = PanelStep(landed.a.type);
  const std::int64_t step = ((size + count - 1) / count + least - 1) / least * least;
  std::vector<Panel> panels;
  for (std::int64_t begin = 0; begin < size; begin += step) {
    const std::int64_t end = std::min(size, begin + step);
    panels.push_back(cut_rows ? Panel{begin, end, 0, landed.n} : Panel{0, landed.m, begin, end});
  }
  return panels;
}

}  // namespace

std::vector<Panel> CutIntoPanels(const Problem& landed, const Residency& resident, const Plan& plan,
                                 std::uint64_t panel_bytes) {
  const std::uint64_t a_bytes = resident[WorkPlane::kA] ? 0 : LandedBytes(landed.a);
  const std::uint64_t b_bytes = resident[WorkPlane::kB] ? 0 : LandedBytes(landed.b);
  const bool cut_rows = a_bytes >= b_bytes;
  // D counts too where it leaves, in panels even where no operand arrives.
  const std::uint64_t d_bytes = resident.d ? 0 : LandedBytes(landed.d);
  const std::uint64_t bytes = std::max({a_bytes, b_bytes, d_bytes});
  const auto count = std::min(kMaxPanels, static_cast<std::int64_t>(bytes / panel_bytes));
  // Each panel would decode all of the operand that is not cut.
  if (count > 1 && !IsDequantized(landed)) {
    std::vector<Panel> panels = Cut(landed, cut_rows, count);
    const Problem first = PanelProblem(landed, panels.front());
    const Problem last = PanelProblem(landed, panels.back());
    const Kernel& kernel = *plan.kernel;
    // The plan's config must serve the panels, and with the same bits where a class promises
    // any.
    const bool is_taken = kernel.Rejection(first).empty() && kernel.Rejection(last).empty();
    const bool has_same_bits = kernel.traits().determinism == Determinism::kFast ||
                               (kernel.NumericsId(first) == plan.numerics_id &&
                                kernel.NumericsId(last) == plan.numerics_id);
    if (is_taken && has_same_bits) return panels;
  }
  return {{0, landed.m, 0, landed.n}};
}

std::uint64_t PanelWorkspaceBytes(const Problem& landed, const std::vector<Panel>& panels,
                                  const Plan& plan) {
  // All panels but the last are alike.
  std::uint64_t bytes = 0;
  for (const Panel& panel : {panels.front(), panels.back()}) {
    bytes = std::max(bytes, plan.kernel->WorkspaceBytes(PanelProblem(landed, panel), plan.config));
  }
  return bytes;
}

}  // namespace gemmd
