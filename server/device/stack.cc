#include "server/device/stack.h"

#include <algorithm>

#include "server/device/launch.h"
#include "server/device/panel.h"

namespace gemmd {
namespace {

// The operand's own stride, in elements of its data.
std::int64_t StrideOf(const Stack& stack, WorkPlane plane) {
  switch (plane) {
    case WorkPlane::kA:
    case WorkPlane::kAScales:
    case WorkPlane::kAZeroPoints:
    case WorkPlane::kATensorScale:
    case WorkPlane::kAOffsets:
      return stack.a_stride;
    case WorkPlane::kB:
    case WorkPlane::kBScales:
    case WorkPlane::kBZeroPoints:
    case WorkPlane::kBTensorScale:
    case WorkPlane::kBOffsets:
      return stack.b_stride;
    case WorkPlane::kC:
      return stack.c_stride;
    case WorkPlane::kBias:
      return stack.bias_stride;
  }
  return 0;
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

// Elements from plane to plane: what goes with the data is tightly packed.
std::int64_t PlaneStride(const Problem& problem, const Stack& stack, WorkPlane plane) {
  const std::int64_t stride = StrideOf(stack, plane);
  const bool goes_with_data =
      std::find(kScalePlanes.begin(), kScalePlanes.end(), plane) != kScalePlanes.end();
  return stride != 0 && goes_with_data ? PlaneOf(problem, plane).columns : stride;
}

}  // namespace

std::uint64_t StrideBytes(const Problem& problem, const Stack& stack, WorkPlane plane) {
  return ElementBytes(PlaneOf(problem, plane), PlaneStride(problem, stack, plane));
}

std::uint64_t ResultStrideBytes(const Problem& problem, const Stack& stack) {
  return ElementBytes(problem.d, stack.d_stride);
}

MatrixLayout PlaneOf(const Problem& problem, const Stack& stack, WorkPlane plane) {
  return Together(PlaneOf(problem, plane), stack.count, PlaneStride(problem, stack, plane));
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

DeviceWork PartOf(const DeviceWork& stacked, std::int64_t begin, std::int64_t end) {
  const Problem& problem = stacked.problem;
  const auto place = static_cast<std::uint64_t>(begin);
  DeviceWork part = stacked;
  part.stack.count = end - begin;
  part.plan.predicted_us *=
      static_cast<double>(end - begin) / static_cast<double>(stacked.stack.count);
  for (const WorkPlane plane : kWorkPlanes) {
    const void*& data = part.buffers[plane];
    if (data == nullptr || !HasPlane(problem, plane)) continue;
    data = static_cast<const char*>(data) + place * StrideBytes(problem, stacked.stack, plane);
  }
  part.buffers.d = PartOf(stacked.buffers.d, place * ResultStrideBytes(problem, stacked.stack),
                          ResultOf(problem, part.stack).size_bytes());
  if (part.stack.is_one()) part.stack = {};
  return part;
}

std::vector<DeviceWork> ProductsOf(const DeviceWork& stacked, std::int64_t begin,
                                   std::int64_t end) {
  std::vector<DeviceWork> products;
  products.reserve(static_cast<std::size_t>(end - begin));
  for (std::int64_t index = begin; index < end; ++index) {
    products.push_back(PartOf(stacked, index, index + 1));
  }
  return products;
}

}  // namespace gemmd
