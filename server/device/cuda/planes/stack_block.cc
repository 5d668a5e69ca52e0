#include "server/device/cuda/planes/stack_block.h"

#include <algorithm>

#include "base/math.h"

namespace gemmd {
namespace {

// Allocations have it, and so all that kernels were tried with.
constexpr std::uint64_t kAlignment = 256;

bool IsVector(WorkPlane plane) {
  return std::find(kVectorPlanes.begin(), kVectorPlanes.end(), plane) != kVectorPlanes.end();
}

// The matrices in one, with lines as the landed one has them.
std::optional<StackPlane> MatrixPlane(const MatrixLayout& sent, const MatrixLayout& landed,
                                      const MatrixLayout& together, bool is_shared) {
  const bool lies_the_same = sent.order == landed.order && sent.rows == landed.rows &&
                             sent.columns == landed.columns && SizeBits(sent.type) >= 8;
  if (!lies_the_same || together.inner() != sent.inner()) return std::nullopt;
  StackPlane plane;
  plane.sent = together;
  plane.landed = landed;
  plane.landed.rows = together.rows;
  plane.landed.columns = together.columns;
  plane.step = is_shared ? 0 : LandedBytes(landed);
  if (plane.step % kAlignment != 0) return std::nullopt;
  return plane;
}

// Products are computed in turn, or need none.
std::uint64_t WorkspaceOf(const DeviceWork& stacked) {
  std::uint64_t most = stacked.plan.workspace_bytes;
  if (!stacked.stack.has_groups() || stacked.groups_go_together) return most;
  for (const auto& [rows, plan] : *stacked.plans) most = std::max(most, plan.workspace_bytes);
  return most;
}

// Returns whether each row of A, C and D is a line of its own where they land, so that groups may
// begin at any.
bool RowsAreLines(const Problem& sent) {
  const Problem one = LandedProblem(PanelProblem(sent, {0, 1, 0, sent.n}));
  const auto is_by_rows = [](const MatrixLayout& layout) {
    return layout.order == Order::kRowMajor;
  };
  return one.m == 1 && one.a_is_k_major() && is_by_rows(one.d) &&
         (!HasPlane(sent, WorkPlane::kC) || is_by_rows(one.c));
}

std::optional<StackPlane> VectorPlane(const MatrixLayout& together, std::uint64_t step) {
  if (step % kAlignment != 0) return std::nullopt;
  return StackPlane{together, together, {}, step};
}

}  // namespace

std::optional<StackBlock> LayOutStack(const DeviceWork& stacked) {
  return LayOutStack(stacked, stacked.resident.which());
}

std::optional<StackBlock> LayOutStack(const DeviceWork& stacked, const Residency& resident) {
  const Problem& sent = stacked.problem;
  const Stack& stack = stacked.stack;
  StackBlock block;
  block.landed = LandedProblem(sent);
  const bool has_groups = stack.has_groups();
  if (has_groups ? !RowsAreLines(sent) : resident.d) return std::nullopt;
  if (block.landed.m != sent.m || block.landed.n != sent.n || block.landed.k != sent.k) {
    return std::nullopt;
  }
  const auto add = [&block](std::uint64_t bytes) {
    const AllocationLayout::Part part{block.total_bytes, bytes};
    block.total_bytes += RoundUp(bytes, kAlignment);
    return part;
  };
  for (const WorkPlane plane : kWorkPlanes) {
    if (!HasPlane(sent, plane) || resident[plane]) continue;
    const MatrixLayout together = PlaneOf(sent, stack, plane);
    const std::uint64_t step = StrideBytes(sent, stack, plane);
    std::optional<StackPlane>& laid_out = block.planes[plane];
    laid_out = IsVector(plane) ? VectorPlane(together, step)
                               : MatrixPlane(PlaneOf(sent, plane), PlaneOf(block.landed, plane),
                                             together, step == 0);
    if (!laid_out.has_value()) return std::nullopt;
    laid_out->part = add(LandedBytes(laid_out->landed));
  }
  // A D that stays lies as the block's would.
  const std::optional<StackPlane> d =
      MatrixPlane(sent.d, block.landed.d, ResultOf(sent, stack), has_groups);
  if (!d.has_value()) return std::nullopt;
  block.d = *d;
  if (!resident.d) block.d.part = add(LandedBytes(d->landed));
  block.workspace = add(WorkspaceOf(stacked));
  return block;
}

std::vector<Arguments> StackBlock::arguments(const DeviceWork& stacked, char* block) const {
  std::vector<Arguments> all;
  all.reserve(static_cast<std::size_t>(stacked.stack.count));
  for (std::int64_t i = 0; i < stacked.stack.count; ++i) {
    all.push_back(ArgumentsOfProduct(stacked, block, i));
  }
  return all;
}

Arguments StackBlock::ArgumentsOfProduct(const DeviceWork& stacked, char* block,
                                         std::int64_t product) const {
  const auto place = static_cast<std::uint64_t>(product);
  Planes<const void*> addresses;
  for (const WorkPlane plane : kWorkPlanes) {
    const ResidentOperand* const stays = stacked.resident[plane].get();
    if (stays != nullptr) {
      addresses[plane] = static_cast<const char*>(stays->data()) + place * stays->step_bytes();
    }
    if (!planes[plane].has_value()) continue;
    addresses[plane] = planes[plane]->part.In(block) + place * planes[plane]->step;
  }
  Arguments each = ArgumentsOf(addresses);
  each.d = stacked.resident.d != nullptr ? static_cast<char*>(stacked.resident.d->memory())
                                         : d.part.In(block) + place * d.step;
  each.workspace = workspace.In(block);
  // Copies in have ended before the launch, and no launch writes an operand.
  each.a_is_settled = each.b_is_settled = true;
  return each;
}

StackBlock::Group StackBlock::GroupOf(const DeviceWork& grouped, char* block,
                                      std::int64_t group) const {
  // Only A, C and D are moved: of B each step is known.
  Stack rows;
  rows.count = grouped.stack.count;
  rows.row_ends = grouped.stack.row_ends;
  const ProductPlace place = PlaceOf(landed, rows, group);
  Group own{place.problem, ArgumentsOfProduct(grouped, block, group),
            &grouped.plans->at(place.problem.m)};
  const auto moved = [](const void* plane, std::uint64_t bytes) {
    return plane == nullptr ? nullptr : static_cast<const char*>(plane) + bytes;
  };
  own.arguments.a = moved(own.arguments.a, place.offsets[WorkPlane::kA]);
  own.arguments.c = moved(own.arguments.c, place.offsets[WorkPlane::kC]);
  own.arguments.d = static_cast<char*>(own.arguments.d) + place.offsets.d;
  return own;
}

std::int64_t StackBlock::StepOf(const DeviceWork& grouped, WorkPlane plane) const {
  const ResidentOperand* const stays = grouped.resident[plane].get();
  if (stays != nullptr) return static_cast<std::int64_t>(stays->step_bytes());
  return planes[plane].has_value() ? static_cast<std::int64_t>(planes[plane]->step) : 0;
}

RowGroups StackBlock::GroupsOf(const DeviceWork& grouped) const {
  return {*grouped.stack.row_ends, StepOf(grouped, WorkPlane::kB),
          StepOf(grouped, WorkPlane::kBias)};
}

bool StackBlock::PlanesFollowB(const DeviceWork& grouped) const {
  if (landed.b_packing == Packing::kNone) return true;
  const auto matrix = static_cast<std::int64_t>(PackedBytes(landed, WeightPlane::kCodes));
  const std::int64_t matrices = StepOf(grouped, WorkPlane::kB) / matrix;
  return std::all_of(kPlanesOfB.begin(), kPlanesOfB.end(), [&](WorkPlane plane) {
    if (!HasPlane(landed, plane)) return true;
    const std::optional<WeightPlane> packed = PackedPlaneOf(landed, plane);
    const std::uint64_t bytes = packed.has_value() ? PackedBytes(landed, *packed) : 0;
    return StepOf(grouped, plane) == matrices * static_cast<std::int64_t>(bytes);
  });
}

}  // namespace gemmd
