// A product that was computed, with all that checking it takes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/gemm.h"
#include "server/device/device.h"

namespace gemmd {

struct FinishedProduct {
  std::uint64_t request_id = 0;
  std::string tenant;
  Problem problem;  // as the buffers have it
  Stack stack;
  HostBuffers buffers;
  // The planes that these have are not in `buffers`, and the device brings them back.
  Device* device = nullptr;
  ResidentPlanes resident;
  const Kernel* kernel = nullptr;  // that computed it
  std::shared_ptr<void> memory;    // of the buffers; null: somebody else keeps it

  std::uint64_t size_bytes() const { return ProductBytes(problem, stack); }
  // The elements of A, B and D, all of which a check reads, of each product.
  double elements() const;
};

// Returns whether the CPU may read all of it: nothing lies where only a device may.
bool IsReadable(const HostBuffers& buffers);

// See VerificationResidual(); of a stack the largest of its products'. Waits for copies where
// operands are residents of a device; the errors are Device::Fetch()'s. RESOURCE_EXHAUSTED: the
// host has no memory for them. REQUIRES: IsReadable(product.buffers), and
// CanVerify(product.problem).
absl::StatusOr<double> ResidualOf(const FinishedProduct& product, int vectors, std::uint64_t seed,
                                  ParallelExecutor* executor);

}  // namespace gemmd
