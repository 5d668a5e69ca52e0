// The instruction descriptor of tcgen05.mma, decoded from its bits.
#pragma once

#include <cstdint>

#include "kernels/emulator/call_site.h"
#include "kernels/emulator/tensor_core.h"

namespace gemmd::emulator {

struct Tcgen05Instruction {
  std::uint32_t rows;     // M, of a pair where there is one
  std::uint32_t columns;  // N
  HalfFormat format;      // of A and B
  bool accumulates_f16;
  bool negates_a;
  bool negates_b;
  bool a_is_mn_major;
  bool b_is_mn_major;
};

// Decodes a descriptor of kind::f16. Ends the launch where the bits say what there is not, or what
// is not emulated.
Tcgen05Instruction DecodeTcgen05Instruction(std::uint32_t bits, std::uint32_t group,
                                            const CallSite& site);

}  // namespace gemmd::emulator
