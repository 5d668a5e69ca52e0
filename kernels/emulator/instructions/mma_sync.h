// mma.sync.aligned.m16n8k16.row.col for f16 and bf16 operands.
#pragma once

#include <cstdint>

#include "kernels/emulator/arithmetic/tensor_core.h"
#include "kernels/emulator/machine/call_site.h"

namespace gemmd::emulator {

// d += a * b with an f32 accumulator.
void MmaSync(HalfFormat format, float (&d)[4], const std::uint32_t (&a)[4],
             const std::uint32_t (&b)[2], const CallSite& site);

// d += a * b with f16 operands and accumulator, two packed in a register.
void MmaSyncF16(std::uint32_t (&d)[2], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                const CallSite& site);

}  // namespace gemmd::emulator
