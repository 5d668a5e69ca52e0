// Checks the values that scale an operand. Pure functions.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kernels/gemm.h"

namespace gemmd {

// INVALID_ARGUMENT, naming the first, where one of the scales, or of the offsets, is infinite or no
// number; of e8m0 that is code 0xFF alone. One of fp8_e4m3 may not be negative either, because
// tensor cores read those without a sign. `scales` has any alignment.
// REQUIRES: a type that scales may have (Scaling::type).
absl::Status CheckScaleValues(absl::string_view field, DataType type, const void* scales,
                              std::uint64_t bytes);

// INVALID_ARGUMENT, naming the first, where a zero point is none of the values of the elements,
// which are integers; of uint4 it may be 16 too. A byte each, signed as they are.
absl::Status CheckZeroPoints(absl::string_view field, DataType element, const void* zero_points,
                             std::uint64_t count);

}  // namespace gemmd
