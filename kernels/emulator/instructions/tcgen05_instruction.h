// The instruction descriptor of tcgen05.mma, decoded from its bits.
#pragma once

#include <cstdint>

#include "kernels/emulator/arithmetic/tensor_core.h"
#include "kernels/emulator/instructions/tcgen05.h"
#include "kernels/emulator/machine/call_site.h"

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
  std::uint32_t a_scale_id;  // the first byte of a word of scales that counts
  std::uint32_t b_scale_id;
  std::uint32_t scales;  // of a line, in this many bytes of the word
  bool has_e4m3_scales;  // else E8M0
};

// Decodes a descriptor of a kind with scales, by the same rules as DecodeTcgen05Instruction().
Tcgen05ScaledInstruction DecodeTcgen05ScaledInstruction(Tcgen05ScaledKind kind, std::uint32_t bits,
                                                        std::uint32_t group, const CallSite& site);

// Decodes a descriptor of kind::f16. Ends the launch where the bits name a thing that does not
// exist or is not emulated.
Tcgen05Instruction DecodeTcgen05Instruction(std::uint32_t bits, std::uint32_t group,
                                            const CallSite& site);

}  // namespace gemmd::emulator
