// Where the products of a stack lie in one block: a plane's matrices at equal distances, so that
// each plane travels as one matrix and the kernel takes all products in one launch.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/gemm.h"
#include "server/device/cuda/planes/landing.h"
#include "server/device/launch.h"
#include "server/device/planes.h"

namespace gemmd {

// One plane of all products: a matrix, or what goes with it.
struct StackPlane {
  MatrixLayout sent;
  MatrixLayout landed;
  AllocationLayout::Part part;
  std::uint64_t step = 0;  // bytes from one product's to the next one's
};

struct StackBlock {
  Problem landed;                            // of one product
  Planes<std::optional<StackPlane>> planes;  // nothing: there is none, or it stays on the device
  StackPlane d;
  AllocationLayout::Part workspace;  // the most of a product: they are computed in turn
  std::uint64_t total_bytes = 0;

  // The kernel's arguments for each product.
  std::vector<Arguments> arguments(const DeviceWork& stacked, char* block) const;
  Arguments ArgumentsOfProduct(const DeviceWork& stacked, char* block, std::int64_t product) const;
  // The rows of groups, whose arguments are those of product 0. REQUIRES: the work has groups.
  RowGroups GroupsOf(const DeviceWork& grouped) const;
  // Returns whether what goes with B goes on from product to product as B does, which is all that
  // RowGroups say: a packed B's planes by as many matrices, and others not at all.
  bool PlanesFollowB(const DeviceWork& grouped) const;
  // A group as a product of its own. REQUIRES: it has rows.
  struct Group {
    Problem landed;
    Arguments arguments;
    const Plan* plan = nullptr;  // of the work's
  };
  Group GroupOf(const DeviceWork& grouped, char* block, std::int64_t group) const;

 private:
  // Bytes from a product's plane to the next one's.
  std::int64_t StepOf(const DeviceWork& grouped, WorkPlane plane) const;
};

// Nothing: the products have to be laid out one by one, because they do not follow each other, or
// not at multiples of 256 bytes, or arrive transposed, padded or packed. Groups share A, C and D.
std::optional<StackBlock> LayOutStack(const DeviceWork& stacked);
// As that, for a stack without its operands: `resident` says which planes will stay.
std::optional<StackBlock> LayOutStack(const DeviceWork& stacked, const Residency& resident);

}  // namespace gemmd
