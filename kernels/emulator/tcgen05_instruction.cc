#include "kernels/emulator/tcgen05_instruction.h"

#include "absl/strings/str_cat.h"
#include "kernels/emulator/failure.h"

namespace gemmd::emulator {

// PTX ISA, "Instruction Descriptor" of tcgen05, the table of .kind::f16, from the lowest bit:
// sparsity selector 2 and sparsity 1; saturation 1; type of D 2 (f16, f32); 1 reserved; types of A
// and of B 3 each (f16, bf16); negate A, negate B, transpose A, transpose B; N / 8 in 6; 1
// reserved; M / 16 in 5; 1 reserved; 2 of .ws.
Tcgen05Instruction DecodeTcgen05Instruction(std::uint32_t bits, std::uint32_t group,
                                            const CallSite& site) {
  std::uint32_t rest = bits;
  const auto take = [&rest](int width) {
    const std::uint32_t field = rest & ((1u << width) - 1);
    rest >>= width;
    return field;
  };
  const auto demand = [&](bool is_so, const char* what) {
    if (is_so) return;
    Fail(Violation::kBadOperand, site,
         absl::StrCat("tcgen05.mma: instruction descriptor ", absl::Hex(bits), ": ", what));
  };
  demand(take(3) == 0, "sparsity, which is not emulated");
  demand(take(1) == 0, "saturation, of integers alone");
  const std::uint32_t d = take(2);
  demand(d <= 1, "D is neither f16 nor f32");
  demand(take(1) == 0, "bit 6 is reserved");
  const std::uint32_t a = take(3);
  const std::uint32_t b = take(3);
  demand(a <= 1 && b <= 1, "A or B is neither f16 nor bf16");
  demand(a == b, "A and B have different types, which is not emulated");
  demand(d == 1 || a == 0, "bf16 is not summed in f16");
  Tcgen05Instruction decoded = {};
  decoded.format = a == 0 ? HalfFormat::kF16 : HalfFormat::kBf16;
  decoded.accumulates_f16 = d == 0;
  decoded.negates_a = take(1) != 0;
  decoded.negates_b = take(1) != 0;
  decoded.a_is_mn_major = take(1) != 0;
  decoded.b_is_mn_major = take(1) != 0;
  decoded.columns = take(6) * 8;
  demand(take(1) == 0, "bit 23 is reserved");
  decoded.rows = take(5) * 16;
  demand(rest == 0, "bits 29 to 31 are reserved, or of .ws");
  // PTX ISA, "Matrix Shape", the table of .kind::f16: M of 64 or 128 for one block, 128 or 256 for
  // two; N in steps of 8 or 16 up to 256. Releases before 9.2 want steps of 16 with M of 128.
  const bool has_rows = decoded.rows == 64 * group || decoded.rows == 128 * group;
  demand(has_rows, "M is not 64 or 128 a block");
  const std::uint32_t step = decoded.rows == 64 ? 8 : 16;
  demand(decoded.columns > 0 && decoded.columns <= 256 && decoded.columns % step == 0,
         "N is not a multiple of 16, or with M of 64 of 8, up to 256");
  return decoded;
}

}  // namespace gemmd::emulator
