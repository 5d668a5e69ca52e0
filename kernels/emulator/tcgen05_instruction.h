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

struct Tcgen05ScaledInstruction {
  std::uint32_t rows;     // M, of a pair where there is one
  std::uint32_t columns;  // N
  FactorFormat a_format;
  FactorFormat b_format;
  bool negates_a;
  bool negates_b;
  bool a_is_mn_major;
  bool b_is_mn_major;
  std::uint32_t a_scale_id;  // the byte of a word of scales, 0 to 3
  std::uint32_t b_scale_id;
};

// Decodes a descriptor of kind::mxf8f6f4, as the next function does one of kind::f16.
Tcgen05ScaledInstruction DecodeTcgen05ScaledInstruction(std::uint32_t bits, std::uint32_t group,
                                                        const CallSite& site);

// Decodes a descriptor of kind::f16. Ends the launch where the bits say what there is not, or what
// is not emulated.
Tcgen05Instruction DecodeTcgen05Instruction(std::uint32_t bits, std::uint32_t group,
                                            const CallSite& site);

}  // namespace gemmd::emulator
