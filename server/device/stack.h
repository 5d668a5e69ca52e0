// Products of one shape that one request asks for, as a strided batch (gemmd.v1.StridedBatch).
// Pure functions.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/gemm.h"
#include "server/device/host_buffer.h"
#include "server/device/panel.h"
#include "server/device/planes.h"

namespace gemmd {

struct DeviceWork;

// Lies beside the Problem of one of the products. REQUIRES of every Stack that reaches a device
// (server/admission checks it): planes begin at whole bytes, no two results overlap, and no size in
// bytes overflows.
struct Stack {
  std::int64_t count = 1;
  // Elements from one product's plane to the next one's; 0: all have the same one.
  Planes<std::int64_t> strides;
  std::int64_t d_stride = 0;  // not 0 where count is not 1, but for groups
  // Not null: groups. Product i has the rows of A, C and D from where the one before it ends on to
  // row_ends[i], perhaps none; the Problem has the rows of all of them. The last is its M.
  std::shared_ptr<const std::vector<std::int64_t>> row_ends;

  bool is_one() const { return count == 1; }
  bool has_groups() const { return row_ends != nullptr; }
  // REQUIRES: has_groups().
  std::int64_t row_begin(std::int64_t product) const {
    return product == 0 ? 0 : row_end(product - 1);
  }
  std::int64_t row_end(std::int64_t product) const {
    return (*row_ends)[static_cast<std::size_t>(product)];
  }
};

// The multiplications and additions of all products.
double FlopsOf(const Problem& problem, const Stack& stack);
std::int64_t RowsOf(const Problem& problem, const Stack& stack);

// Sets the strides of the operand whose data these are: what goes with the data is tightly packed,
// each product's behind that of the one before.
void SetStrides(const Problem& problem, WorkPlane data, std::int64_t stride, Stack* stack);

// Bytes from one product's plane to the next one's. REQUIRES: the problem has the plane.
std::uint64_t StrideBytes(const Problem& problem, const Stack& stack, WorkPlane plane);
std::uint64_t ResultStrideBytes(const Problem& problem, const Stack& stack);

// The planes of all products, as one: of one product, PlaneOf() and problem.d. Matrices that follow
// each other, each with all of its lines, are one with more lines; of others only the bytes mean
// something. REQUIRES: as PlaneOf().
MatrixLayout PlaneOf(const Problem& problem, const Stack& stack, WorkPlane plane);
MatrixLayout ResultOf(const Problem& problem, const Stack& stack);

// 0 where the problem does not have it.
std::uint64_t PlaneBytes(const Problem& problem, const Stack& stack, WorkPlane plane);
// The bytes of all planes that the problem has, and of D.
std::uint64_t ProductBytes(const Problem& problem, const Stack& stack);

// Bytes [offset, offset + bytes) of the buffer. REQUIRES: it has them.
HostBuffer PartOf(const HostBuffer& buffer, std::uint64_t offset, std::uint64_t bytes);

// A product as a problem of its own, which has no rows where its group has none, and bytes from the
// start of each plane to its own.
struct ProductPlace {
  Problem problem;
  PanelOffsets offsets;
};
// The first of products [begin, end), or of groups the problem with the rows of all of them.
ProductPlace PlaceOf(const Problem& problem, const Stack& stack, std::int64_t begin,
                     std::int64_t end);
inline ProductPlace PlaceOf(const Problem& problem, const Stack& stack, std::int64_t product) {
  return PlaceOf(problem, stack, product, product + 1);
}

// Products [begin, end) of the stack, as a work. REQUIRES: 0 <= begin < end <= count; groups have
// rows.
DeviceWork PartOf(const DeviceWork& stacked, std::int64_t begin, std::int64_t end);
// As PartOf(), each product that has rows as a work of its own.
std::vector<DeviceWork> ProductsOf(const DeviceWork& stacked, std::int64_t begin, std::int64_t end);
// Rows [begin, end) of a work of one product, whose A and C come from the host.
DeviceWork RowsOf(const DeviceWork& work, std::int64_t begin, std::int64_t end);

}  // namespace gemmd
