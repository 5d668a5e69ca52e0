// Descriptors of tcgen05: how it finds an operand in shared memory, and what a product is.
// PTX ISA, "TensorCore 5th Generation Family Instructions": "Shared Memory Descriptor" and
// "Instruction Descriptor".
#pragma once

#include "kernels/ptx/matrix_descriptor.h"
#include "kernels/ptx/platform.h"
#include "kernels/ptx/swizzle.h"

namespace gemmd::ptx {
inline namespace GEMMD_BACKEND {

// Leading and stride are those of matrix_descriptor.h, the fields too but for the last ones: 1 in
// bits 46-48, base offset (0) in 49-51, layout in 61-63: 0 none, 2 128 bytes, 4 64 bytes, 6 32.
GEMMD_DEVICE std::uint64_t MakeTcgen05Descriptor(SharedAddress address, std::uint32_t leading_bytes,
                                                 std::uint32_t stride_bytes, Swizzle swizzle) {
  const std::uint64_t layout = swizzle == Swizzle::k128B  ? 2
                               : swizzle == Swizzle::k64B ? 4
                               : swizzle == Swizzle::k32B ? 6
                                                          : 0;
  return ((address & 0x3ffff) >> 4) | (std::uint64_t{leading_bytes >> 4} << 16) |
         (std::uint64_t{stride_bytes >> 4} << 32) | (std::uint64_t{1} << 46) | (layout << 61);
}

enum class Tcgen05Type : std::uint32_t { kF16 = 0, kBf16 = 1 };        // of A and B
enum class Tcgen05Accumulator : std::uint32_t { kF16 = 0, kF32 = 1 };  // of D

// A product of kind::f16, 16 deep. M is 64 or 128 for a block alone, 128 or 256 for a pair; N a
// multiple of 16, or with M of 64 of 8, up to 256.
struct Tcgen05Form {
  Tcgen05Type type = Tcgen05Type::kBf16;
  Tcgen05Accumulator accumulator = Tcgen05Accumulator::kF32;
  int rows = 0;
  int columns = 0;
  Major a_major = Major::kK;
  Major b_major = Major::kK;
  bool negate_a = false;
  bool negate_b = false;
};

// Type of D in bits 4-5, of A in 7-9, of B in 10-12; negate A and B in 13 and 14, MN-major A and B
// in 15 and 16; N / 8 in 17-22; M / 16 in 24-28.
constexpr std::uint32_t MakeTcgen05Instruction(const Tcgen05Form& form) {
  const auto type = static_cast<std::uint32_t>(form.type);
  return static_cast<std::uint32_t>(form.accumulator) << 4 | type << 7 | type << 10 |
         std::uint32_t{form.negate_a} << 13 | std::uint32_t{form.negate_b} << 14 |
         static_cast<std::uint32_t>(form.a_major) << 15 |
         static_cast<std::uint32_t>(form.b_major) << 16 |
         static_cast<std::uint32_t>(form.columns / 8) << 17 |
         static_cast<std::uint32_t>(form.rows / 16) << 24;
}

// Types of A and B of kind::mxf8f6f4, in any combination.
enum class Tcgen05MxType : std::uint32_t { kE4m3 = 0, kE5m2 = 1, kE2m3 = 3, kE3m2 = 4, kE2m1 = 5 };

// A product of kind::mxf8f6f4.block_scale with E8M0 scales, 32 deep, sums of f32. M is 128 for a
// block alone, 256 for a pair; N a multiple of 8, or for a pair of 16, up to 256. A scale's id is
// its byte in a word of four scales.
struct Tcgen05MxForm {
  Tcgen05MxType a_type = Tcgen05MxType::kE4m3;
  Tcgen05MxType b_type = Tcgen05MxType::kE4m3;
  int rows = 0;
  int columns = 0;
  int a_scale_id = 0;
  int b_scale_id = 0;
  Major a_major = Major::kK;
  Major b_major = Major::kK;
  bool negate_a = false;
  bool negate_b = false;
};

// Scale id of B in bits 4-5; type of A in 7-9, of B in 10-12; negate A and B in 13 and 14, MN-major
// A and B in 15 and 16; N / 8 in 17-22; 1, for E8M0, in 23; M / 128 in 27-28; scale id of A in
// 29-30.
constexpr GEMMD_DEVICE std::uint32_t MakeTcgen05MxInstruction(const Tcgen05MxForm& form) {
  return static_cast<std::uint32_t>(form.b_scale_id) << 4 |
         static_cast<std::uint32_t>(form.a_type) << 7 |
         static_cast<std::uint32_t>(form.b_type) << 10 | std::uint32_t{form.negate_a} << 13 |
         std::uint32_t{form.negate_b} << 14 | static_cast<std::uint32_t>(form.a_major) << 15 |
         static_cast<std::uint32_t>(form.b_major) << 16 |
         static_cast<std::uint32_t>(form.columns / 8) << 17 | 1u << 23 |
         static_cast<std::uint32_t>(form.rows / 128) << 27 |
         static_cast<std::uint32_t>(form.a_scale_id) << 29;
}

// A product of e2m1 by kind::mxf4 or kind::mxf4nvf4, 64 deep, K-major, sums of f32. Shapes are
// those of Tcgen05MxForm. A scale's id is the byte of the first of a line's two or four in their
// word: of mxf4 0 or 2, of mxf4nvf4 with blocks of 16 it is 0.
struct Tcgen05Fp4Form {
  bool has_e4m3_scales = false;  // else E8M0; of mxf4nvf4 alone
  int rows = 0;
  int columns = 0;
  int a_scale_id = 0;
  int b_scale_id = 0;
  bool negate_a = false;
  bool negate_b = false;
};

// As MakeTcgen05MxInstruction() has it, but for the types: e2m1 is 1, of A in 7-9, of B in 10-11;
// bit 23 is 0 for E4M3 scales; bit 31, for K of 96, is 0.
constexpr GEMMD_DEVICE std::uint32_t MakeTcgen05Fp4Instruction(const Tcgen05Fp4Form& form) {
  return static_cast<std::uint32_t>(form.b_scale_id) << 4 | 1u << 7 | 1u << 10 |
         std::uint32_t{form.negate_a} << 13 | std::uint32_t{form.negate_b} << 14 |
         static_cast<std::uint32_t>(form.columns / 8) << 17 |
         std::uint32_t{!form.has_e4m3_scales} << 23 |
         static_cast<std::uint32_t>(form.rows / 128) << 27 |
         static_cast<std::uint32_t>(form.a_scale_id) << 29;
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::ptx
