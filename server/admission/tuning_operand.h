// What tuning multiplies.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/gemm.h"

namespace gemmd {

// The bytes of a plane with random elements of both signs: floating-point ones with a
// magnitude in [0.5, 2), so that no product overflows, vanishes or is no number, and every
// other type with any bits. A function of layout and seed alone. Elements repeat with a long
// period, because drawing gigabytes would take longer than measuring.
std::vector<char> RandomOperand(const MatrixLayout& layout, std::uint64_t seed);

}  // namespace gemmd
