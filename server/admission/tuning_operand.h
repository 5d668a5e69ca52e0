// Makes the operands that tuning multiplies.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/gemm.h"
#include "server/device/device.h"

namespace gemmd {

// A plane with random elements of both signs: floating-point ones with a magnitude in [0.5, 2), so
// that no product overflows, vanishes or is no number, and every other type with any bits. A
// function of layout and seed alone. Elements repeat with a long period, because drawing gigabytes
// would take longer than measuring. Its memory is counted as a request's operand is; errors as
// Device::AllocateOperand().
absl::StatusOr<HostPiece> RandomOperand(const MatrixLayout& layout, std::uint64_t seed,
                                        Device* device);

}  // namespace gemmd
