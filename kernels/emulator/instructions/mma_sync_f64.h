// mma.sync.aligned on f64 operands (m16n8k4, m16n8k8 and m16n8k16), row.col: a chain of fused
// multiply-adds over k from 0 on, in ascending order; of NaNs, that of B comes first, then the
// addend's, then that of A.
#pragma once

#include <cstdint>

#include "kernels/emulator/machine/call_site.h"

namespace gemmd::emulator {

// m16n8k`extent`: `a` has extent / 2 elements and `b` extent / 4.
void MmaSyncF64Rows16(int extent, double (&d)[4], const double* a, const double* b,
                      const CallSite& site);

}  // namespace gemmd::emulator
