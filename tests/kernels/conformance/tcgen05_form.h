// The form of a recorded tcgen05.mma: the set's number says its kind, types and N, and the
// instruction's key all the rest. Descriptors are drawn too, so that a set holds for every layout.
#pragma once

#include "kernels/ptx/tcgen05_descriptor.h"
#include "tests/kernels/conformance/random_bits.h"

namespace gemmd::conformance {

enum class Tcgen05Kind : std::uint32_t { kF16, kMxf8f6f4, kMxf4, kMxf4nvf4 };

// The part of a product that all of a set have.
struct Tcgen05Set {
  Tcgen05Kind kind = Tcgen05Kind::kF16;
  // With kF16 1 for bf16, alike for A and B; with kMxf8f6f4 one of Tcgen05MxType's five, by order.
  std::uint32_t a_type = 0;
  std::uint32_t b_type = 0;
  bool sums_f16 = false;         // of kF16
  bool has_e4m3_scales = false;  // of kMxf4nvf4
  bool is_pair = false;
  std::uint32_t columns = 0;  // N
};

// Numbers from here on are of such sets.
inline constexpr std::uint32_t kTcgen05Sets = 0x8000;
inline constexpr std::uint32_t kFirstMxf8f6f4 = 6;  // variants below are of other kinds

constexpr std::uint32_t NumberOf(const Tcgen05Set& set) {
  std::uint32_t variant = kFirstMxf8f6f4 + 5 * set.a_type + set.b_type;
  if (set.kind == Tcgen05Kind::kF16) variant = set.sums_f16 ? 2 : set.a_type;
  if (set.kind == Tcgen05Kind::kMxf4) variant = 3;
  if (set.kind == Tcgen05Kind::kMxf4nvf4) variant = set.has_e4m3_scales ? 4 : 5;
  return kTcgen05Sets | variant << 7 | std::uint32_t{set.is_pair} << 6 | set.columns / 8;
}

constexpr Tcgen05Set Tcgen05SetOf(std::uint32_t number) {
  const std::uint32_t variant = number >> 7 & 31;
  Tcgen05Set set;
  set.is_pair = (number >> 6 & 1) != 0;
  set.columns = number % 64 * 8;
  if (variant < 3) {
    set.a_type = set.b_type = variant % 2;
    set.sums_f16 = variant == 2;
  } else if (variant < kFirstMxf8f6f4) {
    set.kind = variant == 3 ? Tcgen05Kind::kMxf4 : Tcgen05Kind::kMxf4nvf4;
    set.has_e4m3_scales = variant == 4;
  } else {
    set.kind = Tcgen05Kind::kMxf8f6f4;
    set.a_type = (variant - kFirstMxf8f6f4) / 5;
    set.b_type = (variant - kFirstMxf8f6f4) % 5;
  }
  return set;
}

constexpr ptx::Tcgen05MxType MxTypeOf(std::uint32_t type) {
  return static_cast<ptx::Tcgen05MxType>(type < 2 ? type : type + 1);
}

// Where an operand's lines of 32 bytes of K lie in shared memory, as its descriptor says it.
struct Tcgen05Lines {
  bool is_mn_major = false;
  std::uint32_t span = 0;   // bytes of the swizzle, 0: none
  std::uint32_t start = 0;  // of the first line, in bytes
  std::uint32_t leading = 0;
  std::uint32_t stride = 0;
  std::uint32_t bytes = 0;  // that it reaches
};

struct Tcgen05Form {
  std::uint32_t rows = 0;  // M, of both blocks of a pair
  std::uint32_t lane = 0;  // of D: 16 too where M is 64
  Tcgen05Lines a;
  Tcgen05Lines b;
  bool negate_a = false;
  bool negate_b = false;
  std::uint32_t a_scale_id = 0;
  std::uint32_t b_scale_id = 0;
  bool accumulates = false;
  bool loads_16x256b = false;  // D comes to registers by this shape, else by 32x32b
};

inline namespace GEMMD_BACKEND {

// `lines` of M or N in this block, of elements of 1 or 2 bytes. Without a swizzle core matrices of
// 128 bytes lie 144 apart, as no dense tile has them; with one, K may begin inside a span.
GEMMD_DEVICE Tcgen05Lines LinesOf(std::uint32_t lines, std::uint32_t element_bytes,
                                  bool is_mn_major, std::uint32_t random) {
  constexpr std::uint32_t kCore = 144;
  const std::uint32_t k_groups = 4 / element_bytes;  // of 8 lines along K
  Tcgen05Lines form;
  form.is_mn_major = is_mn_major && lines * element_bytes % 16 == 0;
  form.span = random % 4 == 0 ? 0 : 16u << random % 4;
  if (form.is_mn_major && form.span != 0 && lines * element_bytes % form.span != 0) form.span = 0;
  if (form.span == 0) {
    form.leading = form.is_mn_major ? kCore : lines / 8 * kCore + 48;
    form.stride = form.is_mn_major ? k_groups * kCore : kCore;
    form.bytes = lines / 8 * 2 * kCore + 48;
  } else if (form.is_mn_major) {
    form.stride = 8 * form.span;
    form.leading = k_groups * 8 * form.span;
    form.bytes = lines * 32;
  } else {
    form.stride = 8 * form.span;
    form.start = random / 4 % (form.span / 32) * 32;
    form.leading = 16;
    form.bytes = lines * form.span;
  }
  return form;
}

GEMMD_DEVICE Tcgen05Form FormOf(const Tcgen05Set& set, std::uint64_t key) {
  const auto random = static_cast<std::uint32_t>(RandomBits(key, 1));
  const auto layouts = static_cast<std::uint32_t>(RandomBits(key, 2));
  const std::uint32_t blocks = set.is_pair ? 2 : 1;
  Tcgen05Form form;
  form.negate_a = (random & 1) != 0;
  form.negate_b = (random & 2) != 0;
  form.accumulates = (random >> 2 & 7) != 0;
  // 16 columns at least are 8 registers of two f16 each.
  form.loads_16x256b = (random & 32) != 0 && (!set.sums_f16 || set.columns % 16 == 0);
  form.rows = 128 * blocks;
  const bool is_half = set.kind == Tcgen05Kind::kF16;
  if (is_half && ((random & 64) != 0 || set.columns % 16 != 0)) form.rows = 64 * blocks;
  if (form.rows == 64) form.lane = random >> 7 & 16;
  form.a_scale_id = random >> 12 & 3;
  form.b_scale_id = random >> 14 & 3;
  if (set.kind == Tcgen05Kind::kMxf4) {
    form.a_scale_id &= 2;
    form.b_scale_id &= 2;
  } else if (set.kind == Tcgen05Kind::kMxf4nvf4) {
    form.a_scale_id = form.b_scale_id = 0;
  }
  // Elements of fewer than 8 bits are K-major.
  const bool is_8_bit = set.kind == Tcgen05Kind::kMxf8f6f4;
  const bool a_has_majors = is_half || (is_8_bit && set.a_type < 2);
  const bool b_has_majors = is_half || (is_8_bit && set.b_type < 2);
  const std::uint32_t bytes = is_half ? 2 : 1;
  form.a =
      LinesOf(form.rows / blocks, bytes, a_has_majors && (layouts & 1) != 0, layouts >> 2 & 0xff);
  form.b = LinesOf(set.columns / blocks, bytes, b_has_majors && (layouts & 2) != 0,
                   layouts >> 10 & 0xff);
  return form;
}

GEMMD_DEVICE std::uint32_t InstructionOf(const Tcgen05Set& set, const Tcgen05Form& form) {
  const auto major = [](const Tcgen05Lines& lines) {
    return lines.is_mn_major ? ptx::Major::kMn : ptx::Major::kK;
  };
  if (set.kind == Tcgen05Kind::kF16) {
    ptx::Tcgen05Form half;
    half.type = set.a_type == 0 ? ptx::Tcgen05Type::kF16 : ptx::Tcgen05Type::kBf16;
    half.accumulator = set.sums_f16 ? ptx::Tcgen05Accumulator::kF16 : ptx::Tcgen05Accumulator::kF32;
    half.rows = static_cast<int>(form.rows);
    half.columns = static_cast<int>(set.columns);
    half.a_major = major(form.a);
    half.b_major = major(form.b);
    half.negate_a = form.negate_a;
    half.negate_b = form.negate_b;
    return ptx::MakeTcgen05Instruction(half);
  }
  if (set.kind == Tcgen05Kind::kMxf8f6f4) {
    ptx::Tcgen05MxForm mx;
    mx.a_type = MxTypeOf(set.a_type);
    mx.b_type = MxTypeOf(set.b_type);
    mx.rows = static_cast<int>(form.rows);
    mx.columns = static_cast<int>(set.columns);
    mx.a_scale_id = static_cast<int>(form.a_scale_id);
    mx.b_scale_id = static_cast<int>(form.b_scale_id);
    mx.a_major = major(form.a);
    mx.b_major = major(form.b);
    mx.negate_a = form.negate_a;
    mx.negate_b = form.negate_b;
    return ptx::MakeTcgen05MxInstruction(mx);
  }
  ptx::Tcgen05Fp4Form fp4;
  fp4.has_e4m3_scales = set.has_e4m3_scales;
  fp4.rows = static_cast<int>(form.rows);
  fp4.columns = static_cast<int>(set.columns);
  fp4.a_scale_id = static_cast<int>(form.a_scale_id);
  fp4.b_scale_id = static_cast<int>(form.b_scale_id);
  fp4.negate_a = form.negate_a;
  fp4.negate_b = form.negate_b;
  return ptx::MakeTcgen05Fp4Instruction(fp4);
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::conformance
