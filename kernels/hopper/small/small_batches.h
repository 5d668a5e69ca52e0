// Says whether a batch is launched as small products, and how long it takes. Host code, pure.
#pragma once

#include <cstdint>

#include "kernels/kernel.h"

namespace gemmd::hopper::small {

// The compilations of the launch, by the numbers that they multiply.
enum : int { kBf16Numbers, kF16Numbers, kF32Numbers, kF64Numbers };
int NumbersOf(DataType type);

// Returns whether a batch is quicker here than by its family's own launches. REQUIRES: the family
// takes the problem; its type is one of NumbersOf().
bool TakesBatch(const Problem& problem, std::int64_t problems);

// Predicts the time of a batch that TakesBatch(), in microseconds.
double PredictedUs(const Problem& problem, std::int64_t problems, const DeviceTraits& device);

}  // namespace gemmd::hopper::small
