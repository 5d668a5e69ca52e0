// mma.sync.aligned on tf32 (m16n8k8), int8 (m16n8k32) and f64 (m8n8k4) operands, row.col.
//
// tf32: tensor_core.h with blocks of 8 products of operands cut to 11 bits. int8: exact, modulo
// 2^32. f64: a chain of fused multiply-adds over k from 0 to 3.
#pragma once

#include <cstdint>

#include "kernels/emulator/call_site.h"

namespace gemmd::emulator {

void MmaSyncTf32(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                 const CallSite& site);
void MmaSyncInt8(std::uint32_t (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                 const CallSite& site);
void MmaSyncF64(double (&d)[2], double a, double b, const CallSite& site);

}  // namespace gemmd::emulator
