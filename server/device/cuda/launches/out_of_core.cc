#include "server/device/cuda/launches/out_of_core.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/math.h"
#include "server/device/cuda/planes/landing.h"
#include "server/device/resident_part.h"

namespace gemmd {
namespace {

constexpr std::int64_t kPartStep = 256;  // a multiple of every kernel's tile

std::int64_t PartSize(std::int64_t whole, std::int64_t count) {
  return std::min(whole, RoundUp(CeilOfRatio(whole, count), kPartStep));
}

// The largest size along a dimension of `whole` that fits, in steps, and even; 0: none does.
template <typename Fits>
std::int64_t LargestSize(std::int64_t whole, const Fits& fits) {
  if (fits(whole)) return whole;
  std::int64_t least = 0;  // steps that fit
  std::int64_t most = CeilOfRatio(whole, kPartStep);
  while (most - least > 1) {
    const std::int64_t middle = least + (most - least) / 2;
    (fits(middle * kPartStep) ? least : most) = middle;
  }
  return least == 0 ? 0 : PartSize(whole, CeilOfRatio(whole, least * kPartStep));
}

double SentBytes(const Problem& problem, const Residency& resident, WorkPlane plane) {
  return resident[plane] ? 0 : static_cast<double>(PlaneBytes(problem, plane));
}

std::vector<Panel> PanelsOf(const Problem& problem, std::int64_t rows, std::int64_t columns,
                            bool by_rows) {
  std::vector<Panel> panels;
  const std::int64_t m = problem.m;
  const std::int64_t n = problem.n;
  const auto add = [&](std::int64_t row, std::int64_t column) {
    panels.push_back({row, std::min(m, row + rows), column, std::min(n, column + columns)});
  };
  if (by_rows) {
    for (std::int64_t row = 0; row < m; row += rows) {
      for (std::int64_t column = 0; column < n; column += columns) add(row, column);
    }
  } else {
    for (std::int64_t column = 0; column < n; column += columns) {
      for (std::int64_t row = 0; row < m; row += rows) add(row, column);
    }
  }
  return panels;
}

}  // namespace

SharedStrip StripOf(const DeviceWork& whole, WorkPlane shared, const Panel& panel) {
  SharedStrip strip;
  strip.panel = shared == WorkPlane::kA ? Panel{panel.m_begin, panel.m_end, 0, whole.problem.n}
                                        : Panel{0, whole.problem.m, panel.n_begin, panel.n_end};
  const Problem part = PanelProblem(whole.problem, strip.panel);
  strip.sent = PlaneOf(part, shared);
  strip.landed = PlaneOf(LandedProblem(part), shared);
  const auto round = [](std::uint64_t bytes) { return (bytes + 255) / 256 * 256; };
  const std::uint64_t landed_bytes = round(LandedBytes(strip.landed));
  if (IsTransposed(strip.sent, strip.landed)) {
    strip.scratch_bytes = round(LandedBytes(ScratchLayout(strip.sent)));
  }
  strip.total_bytes = landed_bytes + strip.scratch_bytes;
  return strip;
}

std::uint64_t PartCutter::MostBytes(const Problem& landed, const Residency& resident) const {
  std::uint64_t held = 0;
  for (const WorkPlane plane : {WorkPlane::kA, WorkPlane::kB}) {
    if (resident[plane]) held += LandedBytes(PlaneOf(landed, plane));
  }
  // Both may be the same matrix.
  const std::uint64_t left = memory_bytes_ - std::min(memory_bytes_, held);
  return std::max(left, memory_bytes_ / 4) / 4 * 3;
}

AllocationLayout PartCutter::BlockOf(const DeviceWork& work, Residency resident, const Panel& part,
                                     std::optional<WorkPlane> shared) const {
  DeviceWork part_work;
  part_work.problem = PanelProblem(work.problem, part);
  part_work.plan = work.plan;
  if (shared.has_value()) resident[*shared] = true;
  return Prepare(part_work, panel_bytes_, resident).block;
}

bool PartCutter::IsAllowed(const DeviceWork& work, const std::vector<Panel>& panels) const {
  const Kernel& kernel = *work.plan.kernel;
  const Panel& first = panels.front();
  const Panel& last = panels.back();
  // All others are like one of these.
  const Panel right{first.m_begin, first.m_end, last.n_begin, last.n_end};
  const Panel below{last.m_begin, last.m_end, first.n_begin, first.n_end};
  const Panel* const kinds[] = {&first, &last, &right, &below};
  return std::all_of(std::begin(kinds), std::end(kinds), [&](const Panel* part) {
    const Problem landed = LandedProblem(PanelProblem(work.problem, *part));
    return kernel.Rejection(landed).empty() && (kernel.traits().determinism == Determinism::kFast ||
                                                kernel.NumericsId(landed) == work.plan.numerics_id);
  });
}

std::optional<PartCutter::Candidate> PartCutter::CutStrips(const DeviceWork& work,
                                                           const Residency& resident,
                                                           WorkPlane shared, std::int64_t least,
                                                           std::uint64_t most_bytes) const {
  const Problem& problem = work.problem;
  const bool by_rows = shared == WorkPlane::kA;
  // Strips lie side by side along one dimension, the parts of a strip along the other.
  const std::int64_t across = by_rows ? problem.m : problem.n;
  const std::int64_t along = by_rows ? problem.n : problem.m;
  const auto panel = [&](std::int64_t strip, std::int64_t part) {
    return by_rows ? Panel{0, strip, 0, part} : Panel{0, part, 0, strip};
  };
  const auto fits = [&](std::int64_t strip, std::int64_t part) {
    const Panel shape = panel(std::min(across, strip), std::min(along, part));
    const std::uint64_t own = BlockOf(work, resident, shape, shared).total_bytes;
    const std::uint64_t common = StripOf(work, shared, shape).total_bytes;
    return common <= most_bytes && own <= (most_bytes - common) / kPartsAtOnce;
  };
  const std::int64_t strip =
      LargestSize(across, [&](std::int64_t size) { return fits(size, std::min(along, least)); });
  if (strip == 0) return std::nullopt;
  const std::int64_t part =
      LargestSize(along, [&](std::int64_t size) { return fits(strip, size); });
  if (part == 0) return std::nullopt;
  Candidate found;
  found.rows = by_rows ? strip : part;
  found.columns = by_rows ? part : strip;
  found.shared = shared;
  const WorkPlane other = by_rows ? WorkPlane::kB : WorkPlane::kA;
  found.bytes =
      SentBytes(problem, resident, shared) +
      SentBytes(problem, resident, other) * static_cast<double>(CeilOfRatio(across, strip));
  return found;
}

std::optional<PartCutter::Candidate> PartCutter::CutBeside(const DeviceWork& work,
                                                           const Residency& resident, WorkPlane cut,
                                                           std::uint64_t most_bytes) const {
  const Problem& problem = work.problem;
  const bool by_rows = cut == WorkPlane::kA;
  const auto panel = [&](std::int64_t size) {
    return by_rows ? Panel{0, std::min(problem.m, size), 0, problem.n}
                   : Panel{0, problem.m, 0, std::min(problem.n, size)};
  };
  const std::int64_t size = LargestSize(by_rows ? problem.m : problem.n, [&](std::int64_t tried) {
    return BlockOf(work, resident, panel(tried), std::nullopt).total_bytes <=
           most_bytes / kPartsAtOnce;
  });
  if (size == 0) return std::nullopt;
  return Candidate{by_rows ? size : problem.m, by_rows ? problem.n : size, std::nullopt, 0};
}

PartCut PartCutter::Cut(const DeviceWork& work, const Residency& resident) const {
  const Problem& problem = work.problem;
  const std::uint64_t most_bytes = MostBytes(LandedProblem(problem), resident);
  const Panel whole{0, problem.m, 0, problem.n};
  if (BlockOf(work, resident, whole, std::nullopt).total_bytes <= most_bytes) return {};
  if (IsDequantized(problem) || !problem.a_scaling.scales_whole_lines() ||
      !problem.b_scaling.scales_whole_lines() || resident.d || resident[WorkPlane::kC]) {
    return {};
  }
  const bool has_a = resident[WorkPlane::kA];
  const bool has_b = resident[WorkPlane::kB];
  std::optional<Candidate> best;
  if (has_a || has_b) {
    // An operand that is sent is cut; of two that are there A, or B where its rows are too long.
    best = CutBeside(work, resident, has_a && !has_b ? WorkPlane::kB : WorkPlane::kA, most_bytes);
    if (!best.has_value() && has_a && has_b) {
      best = CutBeside(work, resident, WorkPlane::kB, most_bytes);
    }
  } else {
    // Lower parts leave some of a large device idle.
    for (const std::int64_t least : {4 * kPartStep, 2 * kPartStep, kPartStep}) {
      for (const WorkPlane shared : {WorkPlane::kB, WorkPlane::kA}) {
        const std::optional<Candidate> found = CutStrips(work, resident, shared, least, most_bytes);
        if (found.has_value() && (!best.has_value() || found->bytes < best->bytes)) best = found;
      }
      if (best.has_value()) break;
    }
  }
  if (!best.has_value()) return {};
  PartCut parts;
  parts.shared = best->shared;
  parts.panels = PanelsOf(problem, best->rows, best->columns, best->shared == WorkPlane::kA);
  if (parts.panels.size() < 2 || !IsAllowed(work, parts.panels)) return {};
  return parts;
}

Footprint PartCutter::FootprintOf(const DeviceWork& work, const Residency& resident,
                                  const PartCut& parts) const {
  // The first is as large as any.
  const Panel& first = parts.panels.front();
  const AllocationLayout block = BlockOf(work, resident, first, parts.shared);
  const std::uint64_t workspace_bytes = block.total_bytes - block.workspace.offset;
  const std::uint64_t strip_bytes =
      parts.shared.has_value() ? StripOf(work, *parts.shared, first).total_bytes : 0;
  return {strip_bytes + kPartsAtOnce * (block.total_bytes - workspace_bytes),
          kPartsAtOnce * workspace_bytes, 0};
}

DeviceWork PartOf(const DeviceWork& whole, const Panel& part, std::optional<WorkPlane> shared,
                  std::shared_ptr<const ResidentOperand> strip) {
  DeviceWork work = whole;
  work.problem = PanelProblem(whole.problem, part);
  work.weights_id = 0;
  const PanelOffsets sent = OffsetsOf(whole.problem, part);
  const PanelOffsets landed = OffsetsOf(LandedProblem(whole.problem), part);
  for (const WorkPlane plane : kWorkPlanes) {
    if (whole.buffers[plane] != nullptr) {
      work.buffers[plane] = static_cast<const char*>(whole.buffers[plane]) + sent[plane];
    }
    if (whole.resident[plane] != nullptr && landed[plane] != 0) {
      work.resident[plane] = std::make_shared<const ResidentPart>(
          whole.resident[plane], ResidentPart::Place{landed[plane], 0, sent[plane]});
    }
  }
  if (shared.has_value()) work.resident[*shared] = std::move(strip);
  return work;
}

PreparedWork PreparePart(const DeviceWork& whole, const DeviceWork& part_work, const Panel& part,
                         std::optional<WorkPlane> shared, std::uint64_t panel_bytes) {
  PreparedWork prepared = Prepare(part_work, panel_bytes);
  prepared.buffer_d = whole.problem.d;
  prepared.d_row = part.m_begin;
  prepared.d_column = part.n_begin;
  // Lines of a resident operand are as far apart as those of the whole.
  const Problem landed = LandedProblem(whole.problem);
  if (whole.resident[WorkPlane::kA] != nullptr) {
    prepared.landed.a.leading_dimension = landed.a.leading_dimension;
  }
  if (whole.resident[WorkPlane::kB] != nullptr) {
    prepared.landed.b.leading_dimension = landed.b.leading_dimension;
  }
  // A launch ahead may have transposed it.
  if (shared.has_value()) prepared.is_settled[*shared] = false;
  return prepared;
}

}  // namespace gemmd
