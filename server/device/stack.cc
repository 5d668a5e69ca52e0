#include "server/device/stack.h"

#include <algorithm>
#include <memory>

#include "absl/types/span.h"
#include "server/device/launch.h"
#include "server/device/panel.h"
#include "server/device/resident_part.h"

namespace gemmd {
namespace {

// The planes of the operand whose data these are.
absl::Span<const WorkPlane> PlanesWith(const WorkPlane& data) {
  if (data == WorkPlane::kA) return kPlanesOfA;
  if (data == WorkPlane::kB) return kPlanesOfB;
  return absl::MakeConstSpan(&data, 1);
}

// Matrices that begin `stride` elements apart. Those that follow each other, each with all of its
// lines, have the lines of one.
MatrixLayout Together(const MatrixLayout& one, std::int64_t count, std::int64_t stride) {
  if (count == 1 || stride == 0) return one;
  MatrixLayout all = one;
  if (stride == one.outer() * one.leading_dimension) {
    (one.order == Order::kRowMajor ? all.rows : all.columns) *= count;
    return all;
  }
  const std::int64_t elements =
      (count - 1) * stride + (one.outer() - 1) * one.leading_dimension + one.inner();
  return {one.type, 1, elements, Order::kRowMajor, elements};
}

// Rows [begin, end) of op(A) and D, by all of B.
ProductPlace PlaceOfRows(const Problem& problem, std::int64_t begin, std::int64_t end) {
  const Panel rows{begin, end, 0, problem.n};
  ProductPlace place{PanelProblem(problem, rows), OffsetsOf(problem, rows)};
  // Each row's scales lie together, and B is whole.
  place.problem.a_scale_lines = problem.a_scale_lines;
  place.problem.b_scale_lines = problem.b_scale_lines;
  return place;
}

// Moves what stays of A, C and D to a row: of groups these are row by row there.
void MoveToRow(std::int64_t row, const PanelOffsets& offsets, ResidentPlanes* resident) {
  const auto bytes = [row](const ResidentOperand& stays) {
    return ElementBytes(stays.layout(), row * stays.layout().leading_dimension);
  };
  for (const WorkPlane plane : {WorkPlane::kA, WorkPlane::kC}) {
    std::shared_ptr<const ResidentOperand>& stays = (*resident)[plane];
    if (stays == nullptr) continue;
    stays = std::make_shared<const ResidentPart>(
        stays, ResidentPart::Place{bytes(*stays), 0, offsets[plane]});
  }
  if (resident->d != nullptr) {
    resident->d = std::make_shared<ResidentResultPart>(resident->d, bytes(*resident->d));
  }
}

// The work with the problem and the host's planes of the place; D stays as it is.
DeviceWork At(const DeviceWork& work, const ProductPlace& place) {
  DeviceWork at = work;
  at.problem = place.problem;
  for (const WorkPlane plane : kWorkPlanes) {
    const void*& data = at.buffers[plane];
    if (data != nullptr) data = static_cast<const char*>(data) + place.offsets[plane];
  }
  return at;
}

}  // namespace

void SetStrides(const Problem& problem, WorkPlane data, std::int64_t stride, Stack* stack) {
  for (const WorkPlane plane : PlanesWith(data)) {
    const bool is_there = stride != 0 && HasPlane(problem, plane);
    stack->strides[plane] = is_there ? PlaneOf(problem, plane).columns : 0;
  }
  stack->strides[data] = stride;
}

std::uint64_t StrideBytes(const Problem& problem, const Stack& stack, WorkPlane plane) {
  return ElementBytes(PlaneOf(problem, plane), stack.strides[plane]);
}

std::uint64_t ResultStrideBytes(const Problem& problem, const Stack& stack) {
  return ElementBytes(problem.d, stack.d_stride);
}

MatrixLayout PlaneOf(const Problem& problem, const Stack& stack, WorkPlane plane) {
  return Together(PlaneOf(problem, plane), stack.count, stack.strides[plane]);
}

MatrixLayout ResultOf(const Problem& problem, const Stack& stack) {
  return Together(problem.d, stack.count, stack.d_stride);
}

std::uint64_t PlaneBytes(const Problem& problem, const Stack& stack, WorkPlane plane) {
  return HasPlane(problem, plane) ? PlaneOf(problem, stack, plane).size_bytes() : 0;
}

std::uint64_t ProductBytes(const Problem& problem, const Stack& stack) {
  std::uint64_t bytes = ResultOf(problem, stack).size_bytes();
  for (const WorkPlane plane : kWorkPlanes) bytes += PlaneBytes(problem, stack, plane);
  return bytes;
}

HostBuffer PartOf(const HostBuffer& buffer, std::uint64_t offset, std::uint64_t bytes) {
  HostBuffer part;
  for (const HostPiece& piece : buffer) {
    if (bytes == 0) break;
    if (offset >= piece.size_bytes) {
      offset -= piece.size_bytes;
      continue;
    }
    const std::uint64_t taken = std::min(bytes, piece.size_bytes - offset);
    part.push_back({piece.data + offset, taken, piece.owner});
    bytes -= taken;
    offset = 0;
  }
  return part;
}

double FlopsOf(const Problem& problem, const Stack& stack) {
  return stack.has_groups() ? problem.flops() : static_cast<double>(stack.count) * problem.flops();
}

std::int64_t RowsOf(const Problem& problem, const Stack& stack) {
  return stack.has_groups() ? problem.m : stack.count * problem.m;
}

ProductPlace PlaceOf(const Problem& problem, const Stack& stack, std::int64_t begin,
                     std::int64_t end) {
  ProductPlace place{problem, {}};
  if (stack.has_groups()) {
    place = PlaceOfRows(problem, stack.row_begin(begin), stack.row_end(end - 1));
  }
  const auto index = static_cast<std::uint64_t>(begin);
  for (const WorkPlane plane : kWorkPlanes) {
    if (HasPlane(problem, plane)) {
      place.offsets[plane] += index * StrideBytes(problem, stack, plane);
    }
  }
  place.offsets.d += index * ResultStrideBytes(problem, stack);
  return place;
}

DeviceWork PartOf(const DeviceWork& stacked, std::int64_t begin, std::int64_t end) {
  const Stack& stack = stacked.stack;
  const ProductPlace place = PlaceOf(stacked.problem, stack, begin, end);
  const auto first = static_cast<std::uint64_t>(begin);
  const bool is_one = end - begin == 1;
  DeviceWork part = At(stacked, place);
  part.stack.count = end - begin;
  if (stack.has_groups()) {
    auto ends = std::make_shared<std::vector<std::int64_t>>();
    ends->reserve(static_cast<std::size_t>(end - begin));
    for (std::int64_t i = begin; i < end; ++i) {
      ends->push_back(stack.row_end(i) - stack.row_begin(begin));
    }
    part.stack.row_ends = std::move(ends);
  }
  if (stack.has_groups()) MoveToRow(stack.row_begin(begin), place.offsets, &part.resident);
  for (const WorkPlane plane : kWorkPlanes) {
    std::shared_ptr<const ResidentOperand>& stays = part.resident[plane];
    if (stays == nullptr || stays->step_bytes() == 0) continue;
    const std::uint64_t step = stays->step_bytes();
    stays = std::make_shared<const ResidentPart>(
        stays, ResidentPart::Place{first * step, is_one ? 0 : step, place.offsets[plane]});
  }
  if (stack.has_groups() && is_one) {
    part.plan = stacked.plans->at(part.problem.m);
    part.plans = nullptr;
    part.groups_go_together = false;
  } else {
    part.plan.predicted_us *= static_cast<double>(RowsOf(part.problem, part.stack)) /
                              static_cast<double>(RowsOf(stacked.problem, stack));
  }
  part.buffers.d =
      PartOf(stacked.buffers.d, place.offsets.d, ResultOf(part.problem, part.stack).size_bytes());
  if (is_one) part.stack = {};
  return part;
}

std::vector<DeviceWork> ProductsOf(const DeviceWork& stacked, std::int64_t begin,
                                   std::int64_t end) {
  const Stack& stack = stacked.stack;
  std::vector<DeviceWork> products;
  products.reserve(static_cast<std::size_t>(end - begin));
  for (std::int64_t index = begin; index < end; ++index) {
    if (stack.has_groups() && stack.row_begin(index) == stack.row_end(index)) continue;
    products.push_back(PartOf(stacked, index, index + 1));
  }
  return products;
}

DeviceWork RowsOf(const DeviceWork& work, std::int64_t begin, std::int64_t end) {
  const ProductPlace place = PlaceOfRows(work.problem, begin, end);
  DeviceWork rows = At(work, place);
  rows.plan.predicted_us *= static_cast<double>(end - begin) / static_cast<double>(work.problem.m);
  rows.buffers.d = PartOf(work.buffers.d, place.offsets.d, rows.problem.d.size_bytes());
  return rows;
}

}  // namespace gemmd
