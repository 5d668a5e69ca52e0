// The parts of cublaslt_on_gpu.
#pragma once

#include "kernels/device_traits.h"

namespace gemmd::testing {

struct Counts {
  int passed = 0;
  int failed = 0;
};

inline Counts operator+(const Counts& x, const Counts& y) {
  return {x.passed + y.passed, x.failed + y.failed};
}

// Every entry and type against binary64 over the generator's shapes (one in `stride`),
// and panels of a planned problem.
Counts CheckProducts(const DeviceTraits& device, int stride);

// 4096 cubed and a ragged shape against binary64, on a sample of rows.
Counts CheckLargeProducts(const DeviceTraits& device);

// The landing transposition: every byte, then its bandwidth beside a copy's.
Counts CheckTransposition();

// Counts the algorithms for extents that are not multiples of 16.
Counts ProbeExtents(const DeviceTraits& device);

// The vendor path beside cuBLASLt called bare, same algorithm: at most 2 % apart.
Counts TimeProducts(const DeviceTraits& device);

}  // namespace gemmd::testing
