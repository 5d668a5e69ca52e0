// Products of one shape that one request asks for, as a strided batch (gemmd.v1.StridedBatch).
// Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/gemm.h"
#include "server/device/host_buffer.h"
#include "server/device/planes.h"

namespace gemmd {

struct DeviceWork;

// Lies beside the Problem of one of the products. Elements of the data from one product's matrix to
// the next one's; 0: all have the same one. REQUIRES of every Stack that reaches a device
// (server/admission checks it): matrices begin at whole bytes, no two results overlap, and no size
// in bytes overflows.
struct Stack {
  std::int64_t count = 1;
  std::int64_t a_stride = 0;
  std::int64_t b_stride = 0;
  std::int64_t c_stride = 0;
  std::int64_t bias_stride = 0;
  std::int64_t d_stride = 0;  // not 0 where count is not 1

  bool is_one() const { return count == 1; }
};

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

// Products [begin, end) of the stack, as a work. REQUIRES: 0 <= begin < end <= count; what stays on
// the device has stride 0.
DeviceWork PartOf(const DeviceWork& stacked, std::int64_t begin, std::int64_t end);
// As PartOf(), each product as a work of its own.
std::vector<DeviceWork> ProductsOf(const DeviceWork& stacked, std::int64_t begin, std::int64_t end);

}  // namespace gemmd
