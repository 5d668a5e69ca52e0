#include "kernels/emulator/instructions/tcgen05_instruction.h"

#include "absl/strings/str_cat.h"
#include "kernels/emulator/machine/failure.h"

namespace gemmd::emulator {
namespace {

// Fields from the lowest bit on, and what is wrong with one.
class Fields {
 public:
  Fields(std::uint32_t bits, const CallSite& site) : bits_(bits), rest_(bits), site_(site) {}

  std::uint32_t Take(int width) {
    const std::uint32_t field = rest_ & ((1u << width) - 1);
    rest_ >>= width;
    return field;
  }
  void Demand(bool is_so, const char* what) const {
    if (is_so) return;
    Fail(Violation::kBadOperand, site_,
         absl::StrCat("tcgen05.mma: instruction descriptor ", absl::Hex(bits_), ": ", what));
  }
  std::uint32_t rest() const { return rest_; }

 private:
  const std::uint32_t bits_;
  std::uint32_t rest_;
  const CallSite& site_;
};

// Types of A and B of kind::mxf8f6f4; false where there is none of that number.
bool ToScaledFormat(std::uint32_t type, FactorFormat* format) {
  switch (type) {
    case 0:
      *format = FactorFormat::kE4m3;
      return true;
    case 1:
      *format = FactorFormat::kE5m2;
      return true;
    case 3:
      *format = FactorFormat::kE2m3;
      return true;
    case 4:
      *format = FactorFormat::kE3m2;
      return true;
    case 5:
      *format = FactorFormat::kE2m1;
      return true;
    default:
      return false;
  }
}

bool IsOfFewBits(FactorFormat format) {
  return format != FactorFormat::kE4m3 && format != FactorFormat::kE5m2;
}

}  // namespace

// PTX ISA, "Instruction Descriptor" of tcgen05, the table of .kind::f16, from the lowest bit:
// sparsity selector 2 and sparsity 1; saturation 1; type of D 2 (f16, f32); 1 reserved; types of A
// and of B 3 each (f16, bf16); negate A, negate B, transpose A, transpose B; N / 8 in 6; 1
// reserved; M / 16 in 5; 1 reserved; 2 of .ws.
Tcgen05Instruction DecodeTcgen05Instruction(std::uint32_t bits, std::uint32_t group,
                                            const CallSite& site) {
  Fields fields(bits, site);
  const auto take = [&fields](int width) { return fields.Take(width); };
  const auto demand = [&fields](bool is_so, const char* what) { fields.Demand(is_so, what); };
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
  demand(fields.rest() == 0, "bits 29 to 31 are reserved, or of .ws");
  // PTX ISA, "Matrix Shape", the table of .kind::f16: M of 64 or 128 for one block, 128 or 256 for
  // two; N in steps of 8 or 16 up to 256. Releases before 9.2 want steps of 16 with M of 128.
  const bool has_rows = decoded.rows == 64 * group || decoded.rows == 128 * group;
  demand(has_rows, "M is not 64 or 128 a block");
  const std::uint32_t step = decoded.rows == 64 ? 8 : 16;
  demand(decoded.columns > 0 && decoded.columns <= 256 && decoded.columns % step == 0,
         "N is not a multiple of 16, or with M of 64 of 8, up to 256");
  return decoded;
}

namespace {

// N / 8 in 6 bits, type of scales 1 (ue8m0, else ue4m3); 3 reserved; M / 128 in 2; scale factor id
// of A 2: alike in both tables.
void DecodeShapeAndScales(std::uint32_t group, Fields* fields, Tcgen05ScaledInstruction* decoded) {
  decoded->columns = fields->Take(6) * 8;
  decoded->has_e4m3_scales = fields->Take(1) == 0;
  fields->Demand(fields->Take(3) == 0, "bits 24 to 26 are reserved");
  decoded->rows = fields->Take(2) * 128;
  decoded->a_scale_id = fields->Take(2);
  // PTX ISA, "Matrix Shape", the tables of the kinds with scales: M of 128 for one block, 128 or
  // 256 for two; N in steps of 8, or of two blocks 16, up to 256.
  fields->Demand(decoded->rows == 128 * group, "M is not 128 a block, the only one emulated");
  fields->Demand(
      decoded->columns > 0 && decoded->columns <= 256 && decoded->columns % (8 * group) == 0,
      "N is not a multiple of 8, or of two blocks 16, up to 256");
}

// PTX ISA, "Instruction Descriptor" of tcgen05, the table of .kind::mxf8f6f4, from the lowest bit:
// 2 reserved; sparsity 1; 1 reserved; scale factor id of B 2; 1 reserved; types of A and of B 3
// each; negate A, negate B, transpose A, transpose B; shape and scales; 1 reserved.
Tcgen05ScaledInstruction DecodeMxf8f6f4(std::uint32_t group, Fields* fields) {
  Tcgen05ScaledInstruction decoded = {};
  decoded.scales = 1;
  decoded.b_scale_id = fields->Take(2);
  fields->Demand(fields->Take(1) == 0, "bit 6 is reserved");
  for (FactorFormat* format : {&decoded.a_format, &decoded.b_format}) {
    fields->Demand(ToScaledFormat(fields->Take(3), format),
                   "A or B is none of e4m3, e5m2, e2m3, e3m2 and e2m1");
  }
  decoded.negates_a = fields->Take(1) != 0;
  decoded.negates_b = fields->Take(1) != 0;
  decoded.a_is_mn_major = fields->Take(1) != 0;
  decoded.b_is_mn_major = fields->Take(1) != 0;
  fields->Demand(!(decoded.a_is_mn_major && IsOfFewBits(decoded.a_format)) &&
                     !(decoded.b_is_mn_major && IsOfFewBits(decoded.b_format)),
                 "MN-major elements of 4 or 6 bits, which are not emulated");
  DecodeShapeAndScales(group, fields, &decoded);
  fields->Demand(!decoded.has_e4m3_scales, "scales are not ue8m0");
  fields->Demand(fields->rest() == 0, "bit 31 is reserved");
  return decoded;
}

// The table of .kind::mxf4 and .kind::mxf4nvf4: as above, but type of A 3 and of B 2 (1 is e2m1), 1
// reserved, and 1 for K of 96 at the end. Nothing is transposed. "Layout of the Scale Factor A
// Matrix": of two scales a line the first is in byte 0 or 2, of four in byte 0.
Tcgen05ScaledInstruction DecodeFp4(Tcgen05ScaledKind kind, std::uint32_t group, Fields* fields) {
  Tcgen05ScaledInstruction decoded = {};
  decoded.scales = kind == Tcgen05ScaledKind::kMxf4 ? 2 : 4;
  decoded.a_format = decoded.b_format = FactorFormat::kE2m1;
  decoded.b_scale_id = fields->Take(2);
  fields->Demand(fields->Take(1) == 0, "bit 6 is reserved");
  fields->Demand(fields->Take(3) == 1 && fields->Take(2) == 1, "A or B is not e2m1");
  fields->Demand(fields->Take(1) == 0, "bit 12 is reserved");
  decoded.negates_a = fields->Take(1) != 0;
  decoded.negates_b = fields->Take(1) != 0;
  fields->Demand(fields->Take(2) == 0, "e2m1 is transposed");
  DecodeShapeAndScales(group, fields, &decoded);
  fields->Demand(kind == Tcgen05ScaledKind::kMxf4nvf4 || !decoded.has_e4m3_scales,
                 "scales are not ue8m0");
  fields->Demand(
      decoded.a_scale_id % decoded.scales == 0 && decoded.b_scale_id % decoded.scales == 0,
      "a scale id is not 0, or with two scales a line 2");
  fields->Demand(fields->rest() == 0, "K of 96, which is not emulated");
  return decoded;
}

}  // namespace

Tcgen05ScaledInstruction DecodeTcgen05ScaledInstruction(Tcgen05ScaledKind kind, std::uint32_t bits,
                                                        std::uint32_t group, const CallSite& site) {
  Fields fields(bits, site);
  fields.Demand(fields.Take(2) == 0, "bits 0 and 1 are reserved");
  fields.Demand(fields.Take(1) == 0, "sparsity, which is not emulated");
  fields.Demand(fields.Take(1) == 0, "bit 3 is reserved");
  return kind == Tcgen05ScaledKind::kMxf8f6f4 ? DecodeMxf8f6f4(group, &fields)
                                              : DecodeFp4(kind, group, &fields);
}

}  // namespace gemmd::emulator
