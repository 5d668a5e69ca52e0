// mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X with e4m3 and e5m2
// operands, E8M0 scales and f32 sums.
//
// The sum is tensor_core.h's rule with one block of 32 products, whose scales count as part of the
// exponents: MMA-Sim (Xie et al., arXiv 2511.10909) finds it for this instruction on RTX Blackwell.
// No card of that kind has been asked here.
#pragma once

#include <cstdint>

#include "kernels/emulator/arithmetic/tensor_core.h"
#include "kernels/emulator/machine/call_site.h"

namespace gemmd::emulator {

// A lane's scale operand: four scales, and the selectors, alike in all lanes.
struct MmaScale {
  std::uint32_t word;
  std::int32_t byte;  // byte-id: the byte of the word, 0 to 3
  std::int32_t
      thread;  // thread-id: the lanes of a quad that have the scales; of A 0 or 1, of B 0-3
};

// d += (a * scales of rows) * (b * scales of columns). With t the lane in its quad and g the quad,
// the scale of row g + 8 * h is in the lane with t = 2 * thread + h, that of column g in the one
// with t = thread; other lanes' words are not read. PTX ISA, "Block Scaling for mma.sync".
void MmaSyncScaled(FactorFormat a_format, FactorFormat b_format, float (&d)[4],
                   const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                   const MmaScale& a_scale, const MmaScale& b_scale, const CallSite& site);

}  // namespace gemmd::emulator
