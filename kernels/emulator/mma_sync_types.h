// mma.sync.aligned on tf32 (m16n8k8), int8 (m16n8k32) and f64 (m8n8k4, m16n8k4, m16n8k8 and
// m16n8k16) operands, row.col.
//
// tf32: tensor_core.h with blocks of 8 products of operands cut to 11 bits. int8: exact, modulo
// 2^32. f64: a chain of fused multiply-adds over k from 0 on, in ascending order; of NaNs, that of
// B comes first, then the addend's, then that of A.
#pragma once

#include <cstdint>

#include "kernels/emulator/call_site.h"

namespace gemmd::emulator {

void MmaSyncTf32(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                 const CallSite& site);
void MmaSyncInt8(std::uint32_t (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                 const CallSite& site);
void MmaSyncF64(double (&d)[2], double a, double b, const CallSite& site);
// m16n8k`extent`: `a` has extent / 2 elements and `b` extent / 4.
void MmaSyncF64Rows16(int extent, double (&d)[4], const double* a, const double* b,
                      const CallSite& site);

}  // namespace gemmd::emulator
