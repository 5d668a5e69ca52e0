#include "server/device/cuda/launches/groups_in_parts.h"

#include <algorithm>

#include "server/device/cuda/planes/landing.h"
#include "server/device/cuda/planes/stack_block.h"

namespace gemmd {
namespace {

// Bytes of a launch's block: for each row, and for each group that has some.
struct GroupBytes {
  std::uint64_t row = 0;
  std::uint64_t group = 0;
};

GroupBytes BytesOf(const DeviceWork& grouped, const StackBlock& layout) {
  const auto of_row = [&](const MatrixLayout& landed) {
    return ElementBytes(landed, landed.leading_dimension);
  };
  GroupBytes bytes;
  bytes.row = of_row(layout.d.landed);
  for (const WorkPlane plane : kWorkPlanes) {
    const std::optional<StackPlane>& own = layout.planes[plane];
    if (!own.has_value()) continue;
    if (plane == WorkPlane::kA || plane == WorkPlane::kC) {
      bytes.row += of_row(own->landed);
    } else if (grouped.stack.strides[plane] != 0) {
      bytes.group += own->step;
    }
  }
  return bytes;
}

bool TakesGroups(const DeviceWork& grouped, const StackBlock& layout) {
  if (!grouped.groups_go_together) return true;
  // Where the operands are not there yet, the plan has been asked.
  const bool is_known =
      layout.planes[WorkPlane::kB].has_value() || grouped.resident[WorkPlane::kB] != nullptr;
  if (!is_known) return true;
  return grouped.plan.kernel->TakesGroups(layout.landed, layout.GroupsOf(grouped).b_step) &&
         layout.PlanesFollowB(grouped);
}

}  // namespace

std::optional<GroupCut> CutGroups(const DeviceWork& grouped, const Residency& resident,
                                  const PartCutter& cutter, std::uint64_t panel_bytes,
                                  std::uint64_t most_bytes, double slice_us) {
  // Scales of a quantized A are not moved from group to group.
  if (grouped.problem.a_scaling != Scaling::kNone) return std::nullopt;
  const std::optional<StackBlock> layout = LayOutStack(grouped, resident);
  if (!layout.has_value() || !TakesGroups(grouped, *layout)) return std::nullopt;
  const GroupBytes bytes = BytesOf(grouped, *layout);
  const Stack& stack = grouped.stack;
  double own_us = 0;
  std::int64_t longest = 0;
  const auto rows_of = [&](std::int64_t i) { return stack.row_end(i) - stack.row_begin(i); };
  for (std::int64_t i = 0; i < stack.count; ++i) {
    if (rows_of(i) == 0) continue;
    own_us += grouped.plans->at(rows_of(i)).predicted_us;
    if (longest == 0 || rows_of(i) > rows_of(longest - 1)) longest = i + 1;
  }
  // A group that the memory does not hold goes in parts of its own.
  if (cutter.MayCut(Prepare(PartOf(grouped, longest - 1, longest), panel_bytes, resident))) {
    return std::nullopt;
  }
  GroupCut cut;
  cut.all_bytes = layout->total_bytes;
  double us = 0;
  std::uint64_t part_bytes = 0;
  for (std::int64_t i = 0; i < stack.count; ++i) {
    const std::int64_t rows = rows_of(i);
    if (rows == 0) continue;
    const double group_us =
        grouped.plans->at(rows).predicted_us * grouped.plan.predicted_us / own_us;
    const std::uint64_t group_bytes = static_cast<std::uint64_t>(rows) * bytes.row + bytes.group;
    if (cut.parts.empty() || us + group_us > slice_us || part_bytes + group_bytes > most_bytes) {
      cut.parts.push_back({i, i + 1});
      us = 0;
      part_bytes = 0;
    }
    us += group_us;
    part_bytes += group_bytes;
    cut.parts.back().end = i + 1;
    cut.most_bytes = std::max(cut.most_bytes, part_bytes + layout->workspace.bytes);
  }
  return cut;
}

IssuedWork GroupsInParts::IssueNext(std::size_t slice, CudaSlot* slot, StagingRing* ring) {
  const GroupCut::Part& part = cut_.parts[slice];
  const DeviceWork work = PartOf(grouped_, part.begin, part.end);
  // One group alone overlaps its copies and its kernel.
  if (work.stack.is_one()) return issuer_->Issue(Prepare(work, panel_bytes_), slot, ring);
  return issuer_->IssueStack(work, LayOutStack(work).value(), slot, ring);
}

}  // namespace gemmd
