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
  if (resident.d || block.landed.m != sent.m || block.landed.n != sent.n ||
      block.landed.k != sent.k) {
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
  const std::optional<StackPlane> d =
      MatrixPlane(sent.d, block.landed.d, ResultOf(sent, stack), false);
  if (!d.has_value()) return std::nullopt;
  block.d = *d;
  block.d.part = add(LandedBytes(d->landed));
  block.workspace = add(stacked.plan.workspace_bytes);
  return block;
}

std::vector<Arguments> StackBlock::arguments(const DeviceWork& stacked, char* block) const {
  std::vector<Arguments> all;
  all.reserve(static_cast<std::size_t>(stacked.stack.count));
  for (std::int64_t i = 0; i < stacked.stack.count; ++i) {
    const auto place = static_cast<std::uint64_t>(i);
    Planes<const void*> addresses;
    for (const WorkPlane plane : kWorkPlanes) {
      const ResidentOperand* const stays = stacked.resident[plane].get();
      if (stays != nullptr) {
        addresses[plane] = static_cast<const char*>(stays->data()) + place * stays->step_bytes();
      }
      if (!planes[plane].has_value()) continue;
      addresses[plane] = planes[plane]->part.In(block) + place * planes[plane]->step;
    }
    Arguments& each = all.emplace_back(ArgumentsOf(addresses));
    each.d = d.part.In(block) + place * d.step;
    each.workspace = workspace.In(block);
    // Copies in have ended before the launch, and no launch writes an operand.
    each.a_is_settled = each.b_is_settled = true;
  }
  return all;
}

}  // namespace gemmd
