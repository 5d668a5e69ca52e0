// A product by quantized weights with its planes in the emulator, and what bits D should have:
// apart from all of the family's sources, of which a test may have changed copies.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "base/numbers/quant/code_table.h"
#include "base/numbers/quant/elements.h"
#include "base/numbers/quant/packed_codes.h"
#include "kernels/emulator/arithmetic/tensor_core.h"
#include "kernels/emulator/session.h"
#include "kernels/kernel.h"
#include "tests/kernels/hopper/common/plane.h"

namespace gemmd::testing {

// A scale of a B of 8 bits is for 1 x 128, for 128 x 128, for a line or for all of it.
enum class ScalesOf { kGroups, kBlocks, kLines, kAll };

struct QuantCase {
  std::int64_t m = 1;
  std::int64_t n = 64;
  std::int64_t k = 128;
  DataType a = DataType::kBf16;
  DataType b = DataType::kInt4;
  bool has_zero_points = false;
  DataType d = DataType::kBf16;
  Order d_order = Order::kRowMajor;
  bool b_is_k_major = true;
  bool b_is_settled = true;
  Epilogue epilogue = {};
  bool is_nvfp4 = false;         // where B is E2M1; else that is mxfp4
  bool is_mx = false;            // of fp8: with E8M0 scales, as all others of its kind have
  bool has_any_scale = false;    // of a byte: the smallest, the largest and others that are seldom
  bool has_bf16_scales = false;  // of 4 bits, else f16
  ScalesOf scales_of = ScalesOf::kGroups;
  std::int64_t group_k = 128;   // of integers, where scales are of groups
  bool has_offsets = false;     // of uint4 and uint8
  bool has_f32_scales = false;  // of 4 bits
  bool has_odd_rows = false;    // of f32: infinities, NaN and the least numbers
  bool has_nan = false;         // of fp8: some lines; of E2M1 with any scale: some scales

  bool is_e2m1() const { return b == DataType::kFp4E2M1; }
  bool has_table() const { return CodeTableOf(b) != nullptr; }
  // Numbers that no row's type has, and that are the sum of two of it.
  bool has_two_terms() const { return b == DataType::kNf4 || b == DataType::kBnbFp4; }
  // Elements of K for which a packed scale is: where one scale is for all of K, each 128 has it.
  std::int64_t scale_k() const { return is_nvfp4 ? 16 : is_e2m1() ? 32 : group_k; }
  bool has_e8m0_scales() const { return is_mx || SizeBits(b) == 6 || (is_e2m1() && !is_nvfp4); }
  bool is_integer() const { return IsQuantizedInteger(b); }
  bool has_float_scales() const { return (SizeBits(b) == 8 && !is_mx) || has_f32_scales; }
  DataType scale_type() const {
    if (is_nvfp4) return DataType::kFp8E4M3;
    if (has_e8m0_scales()) return DataType::kE8M0;
    return has_float_scales() ? DataType::kF32 : has_bf16_scales ? DataType::kBf16 : DataType::kF16;
  }
};

// A case of a format of packed.h, which a changed copy of it may have too.
template <class CodeFormat>
QuantCase CaseOf(CodeFormat format, std::int64_t m, std::int64_t n, std::int64_t k) {
  QuantCase c = {m, n, k};
  const auto code = CodeOf(format);
  using Code = std::remove_const_t<decltype(code)>;
  c.is_nvfp4 = format == CodeFormat::kNvfp4;
  c.b = code == Code::kInt4   ? DataType::kInt4
        : code == Code::kInt8 ? DataType::kInt8
        : code == Code::kE4m3 ? DataType::kFp8E4M3
        : code == Code::kE5m2 ? DataType::kFp8E5M2
        : code == Code::kE3m2 ? DataType::kFp6E3M2
        : code == Code::kE2m3 ? DataType::kFp6E2M3
        : code == Code::kE2m1 ? DataType::kFp4E2M1
        : HasTwoTerms(format) ? DataType::kNf4
                              : DataType::kIq4Nl;
  c.has_offsets = HasOffsets(format);
  if (c.has_offsets) c.b = code == Code::kInt4 ? DataType::kUint4 : DataType::kUint8;
  c.has_f32_scales = (code == Code::kInt4 || code == Code::kTable) && ScaleSize(format) == 4;
  c.is_mx = (code == Code::kE4m3 || code == Code::kE5m2) && ScaleK(format) == 32;
  if (!c.is_e2m1()) c.group_k = ScaleK(format);
  return c;
}

inline Problem MakeQuantProblem(const QuantCase& c) {
  Problem problem = MakeProblem(c.m, c.n, c.k, c.a, c.d, false, c.b_is_k_major);
  problem.a.leading_dimension = (c.k + 7) / 8 * 8 + 8;
  problem.b.type = c.b;
  const bool is_whole = c.scales_of == ScalesOf::kLines || c.scales_of == ScalesOf::kAll;
  Scaling& scaling = problem.b_scaling;
  scaling.has_scales = true;
  scaling.type = c.scale_type();
  scaling.block_lines = c.scales_of == ScalesOf::kAll      ? kWhole
                        : c.scales_of == ScalesOf::kBlocks ? std::uint16_t{128}
                                                           : std::uint16_t{1};
  scaling.block_k = is_whole ? kWhole : static_cast<std::uint16_t>(c.scale_k());
  scaling.has_tensor_scale = c.is_nvfp4;
  scaling.order = c.b_is_k_major || is_whole ? ScaleOrder::kAlongK : ScaleOrder::kAlongLines;
  scaling.has_zero_points = c.has_zero_points;
  scaling.has_offsets = c.has_offsets;
  problem.d.order = c.d_order;
  problem.d.type = c.d;
  problem.c = problem.d;
  problem.c.leading_dimension = problem.c.inner() + 1;
  problem.d.leading_dimension = problem.d.inner() + 3;
  problem.epilogue = c.epilogue;
  problem.accumulate = DataType::kF32;
  return problem;
}

// A hash, the same wherever it is asked for.
inline std::uint32_t HashOf(std::uint32_t seed, std::int64_t line, std::int64_t k) {
  auto x = static_cast<std::uint32_t>(line * 2654435761 + k * 40503 + seed * 97);
  x ^= x >> 16;
  x *= 0x85ebca6b;
  x ^= x >> 13;
  x *= 0xc2b2ae35;
  return x ^ (x >> 16);
}

// Bytes at a multiple of 128, exactly as many as are needed.
class Bytes {
 public:
  explicit Bytes(std::int64_t size) : storage_(static_cast<std::size_t>(size) + 128, 0x7f) {
    data_ = storage_.data() + (128 - reinterpret_cast<std::uintptr_t>(storage_.data()) % 128) % 128;
  }
  std::uint8_t* data() { return data_; }
  const std::uint8_t* data() const { return data_; }

 private:
  std::vector<std::uint8_t> storage_;
  std::uint8_t* data_;
};

struct QuantRun {
  explicit QuantRun(const QuantCase& c)
      : its(c),
        problem(MakeQuantProblem(c)),
        groups((c.k + 127) / 128),
        a_plane(problem.a),
        c_plane(problem.c),
        d_plane(problem.d),
        codes(static_cast<std::int64_t>(problem.b.size_bytes())),
        scale_count(problem.b_scaling.count(c.n, c.k)),
        scales(scale_count * ScaleSize()),
        zeros(scale_count),
        offsets(scale_count * ScaleSize()),
        packed_codes(Units(groups) * 256 * SizeBits(c.b)),
        packed_scales(Units(ScaleGroups()) * 16 * ScalesOfGroup() * ScaleSize()),
        packed_zeros(Units(ScaleGroups()) * 16 * ScalesOfGroup()),
        packed_offsets(Units(ScaleGroups()) * 16 * ScalesOfGroup() * ScaleSize()),
        workspace(WorkspaceBytes()),
        bias(c.n * SizeBits(c.d) / 8) {
    std::memset(codes.data(), 0, problem.b.size_bytes());
    for (std::int64_t row = 0; row < c.m; ++row) {
      for (std::int64_t i = 0; i < c.k; ++i) {
        if (c.a == DataType::kF32) {
          a_plane.Set(row, i, FloatOfA(row, i));
        } else {
          a_plane.Set(row, i, AOf(row, i));
        }
      }
      for (std::int64_t column = 0; column < c.n; ++column) {
        SetHalfOrFloat(&c_plane, row, column, COf(row, column));
      }
    }
    const std::int64_t blocks = problem.b_scaling.k_blocks(c.k);
    for (std::int64_t line = 0; line < c.n; ++line) {
      for (std::int64_t i = 0; i < c.k; ++i) {
        StoreCode(codes.data(), SizeBits(c.b),
                  line * problem.b_column_stride() + i * problem.b_inner_stride(), CodeOf(line, i));
      }
      for (std::int64_t block = 0; block < blocks; ++block) {
        const std::int64_t index = problem.b_scaling.index(
            c.n, c.k, line, block * std::int64_t{problem.b_scaling.block_k});
        const std::uint32_t scale = ScaleBitsOf(line, block);
        std::memcpy(scales.data() + index * ScaleSize(), &scale,
                    static_cast<std::size_t>(ScaleSize()));
        zeros.data()[index] = static_cast<std::uint8_t>(ZeroOf(line, block));
        const std::uint32_t offset = OffsetBitsOf(line, block);
        std::memcpy(offsets.data() + index * ScaleSize(), &offset,
                    static_cast<std::size_t>(ScaleSize()));
      }
      SetElement(bias.data(), line, BiasOf(line));
    }
    PackByHand();
  }

  // Units of packed lines that have so many groups.
  std::int64_t Units(std::int64_t of_groups) const { return (its.n + 127) / 128 * 8 * of_groups; }
  bool HasScalesOfLines() const { return problem.b_scaling.block_k == kWhole; }
  std::int64_t ScaleGroups() const { return HasScalesOfLines() ? 1 : groups; }
  std::int64_t ScalesOfGroup() const { return 128 / its.scale_k(); }

  emulator::HalfFormat RowFormat() const {
    return its.a == DataType::kF16 ? emulator::HalfFormat::kF16 : emulator::HalfFormat::kBf16;
  }
  // Numbers of several magnitudes.
  std::uint16_t AOf(std::int64_t row, std::int64_t i) const {
    const std::uint32_t x = HashOf(1, row, i);
    const float value = static_cast<float>(x & 0xffff) / 65536.0F - 0.5F;
    return emulator::Narrow(RowFormat(), std::ldexp(value, static_cast<int>(x >> 30)));
  }
  // A of f32: numbers of 24 bits.
  float FloatOfA(std::int64_t row, std::int64_t i) const {
    const std::uint32_t x = HashOf(6, row, i);
    if (its.has_odd_rows && (row + i) % 61 == 7) {
      constexpr std::uint32_t kOdd[] = {0x7f800000, 0xff800000, 0x7fc00001, 0x7f800001,
                                        0x00000001, 0x80012345, 0x007fffff, 0x09876543};
      float value;
      std::memcpy(&value, &kOdd[row % 8], sizeof value);
      return value;
    }
    const float value = static_cast<float>(x & 0xffffff) / 16777216.0F - 0.5F;
    return std::ldexp(value, static_cast<int>(x >> 29));
  }
  // Three numbers of bf16, cut and not rounded.
  std::uint16_t PartOfA(std::int64_t row, std::int64_t i, int part) const {
    float x = FloatOfA(row, i);
    if (!std::isfinite(x)) return part > 0 ? 0 : emulator::Narrow(emulator::HalfFormat::kBf16, x);
    std::uint32_t bits = 0;
    for (int each = 0; each <= part; ++each) {
      std::memcpy(&bits, &x, sizeof bits);
      bits &= 0xffff0000;
      float taken;
      std::memcpy(&taken, &bits, sizeof taken);
      x -= taken;
    }
    return static_cast<std::uint16_t>(bits >> 16);
  }
  // The most that a launch may use: sums of rows, behind three rows of bf16 and their products for
  // each row of f32.
  std::int64_t WorkspaceBytes() const {
    const std::int64_t rows = its.a == DataType::kF32 ? 3 * its.m : its.m;
    const std::int64_t sums = (rows + 127) / 128 * 128 * groups * ScalesOfGroup() * 4;
    if (its.a != DataType::kF32) return sums;
    return sums + rows * its.k * 2 + (rows + 3) * (its.n + 3) * 4 + 512;
  }
  std::uint32_t CodeOf(std::int64_t line, std::int64_t i) const {
    const std::uint32_t code = HashOf(2, line, i) >> (32 - SizeBits(its.b));
    if (its.b == DataType::kFp8E4M3) {
      return (code & 0x7f) == 0x7f && !LineHasNan(line) ? code ^ 1 : code;
    }
    if (its.b != DataType::kFp8E5M2) return code;
    // Few infinities, so that not all sums with one are NaN, and NaN in some lines.
    if (IsOddLine(line) && i % 389 == 5) return (code & 0x80) | (line % 10 == 7 ? 0x7e : 0x7c);
    return (code & 0x7f) >= 0x7c ? code ^ 0x40 : code;
  }
  bool IsOddLine(std::int64_t line) const { return its.has_nan && line % 5 == 2; }
  bool LineHasNan(std::int64_t line) const {
    return its.b == DataType::kFp8E4M3 && IsOddLine(line);
  }
  std::int64_t ScaleSize() const { return SizeBits(its.scale_type()) / 8; }
  std::int64_t FirstLineOfBlock(std::int64_t line) const {
    return its.scales_of == ScalesOf::kAll      ? 0
           : its.scales_of == ScalesOf::kBlocks ? line / 128 * 128
                                                : line;
  }
  // Scales of either sign, and zero now and then; those of mxfp4 have several magnitudes.
  std::uint32_t ScaleBitsOf(std::int64_t line, std::int64_t block) const {
    const std::uint32_t x = HashOf(3, FirstLineOfBlock(line), block);
    if (its.has_e8m0_scales() || its.is_nvfp4) {
      constexpr std::uint8_t kOddE8m0[] = {0, 1, 127, 128, 253, 254, 0xff};
      constexpr std::uint8_t kOddE4m3[] = {0x00, 0x01, 0x07, 0x80, 0x86, 0xb9, 0xfe, 0x7f, 0xff};
      // In every other strip, and there in some of its turns; of one kind in a group of K.
      const std::int64_t group = block * its.scale_k() / 128;
      const std::int64_t kind = line / 32 + group;
      const bool is_odd = its.has_any_scale && line / 16 % 2 == 1 && group / 8 % 2 == 0 &&
                          (line + 3 * block) % 5 == 0;
      if (its.is_nvfp4) {
        return is_odd ? kOddE4m3[kind % (its.has_nan ? 9 : 7)] : 0x08 + x % 0x77;
      }
      return is_odd ? kOddE8m0[kind % (its.has_nan ? 7 : 6)] : 114 + x % 14;
    }
    return BitsOfScale((static_cast<float>(x & 0xfff) - 1024.0F) / 65536.0F);
  }
  // An offset has either sign, is zero now and then, and is some steps of a scale.
  std::uint32_t OffsetBitsOf(std::int64_t line, std::int64_t block) const {
    const std::uint32_t x = HashOf(5, line, block);
    return x % 16 == 0 ? 0 : BitsOfScale((static_cast<float>(x & 0xfff) - 3072.0F) / 8192.0F);
  }
  std::uint32_t BitsOfScale(float scale) const {
    if (its.has_e8m0_scales() || its.is_nvfp4) return 0;
    if (!its.has_float_scales()) return emulator::Narrow(ScaleFormat(), scale);
    std::uint32_t bits;
    std::memcpy(&bits, &scale, 4);
    return bits;
  }
  emulator::HalfFormat ScaleFormat() const {
    return its.has_bf16_scales ? emulator::HalfFormat::kBf16 : emulator::HalfFormat::kF16;
  }
  // The scale of a line for element i of K.
  float ScaleAt(std::int64_t line, std::int64_t i) const {
    const std::uint32_t bits = ScaleBitsOf(line, HasScalesOfLines() ? 0 : i / its.scale_k());
    if (its.has_e8m0_scales())
      return static_cast<float>(DecodeE8M0(static_cast<std::uint8_t>(bits)));
    return FloatOfScale(bits);
  }
  float OffsetAt(std::int64_t line, std::int64_t i) const {
    return FloatOfScale(OffsetBitsOf(line, i / its.scale_k()));
  }
  float FloatOfScale(std::uint32_t bits) const {
    if (!its.has_float_scales()) {
      return emulator::Widen(ScaleFormat(), static_cast<std::uint16_t>(bits));
    }
    float scale;
    std::memcpy(&scale, &bits, 4);
    return scale;
  }
  int ZeroOf(std::int64_t line, std::int64_t block) const {
    if (!its.has_zero_points) return 0;
    const int zero =
        static_cast<int>(HashOf(4, FirstLineOfBlock(line), block) >> (32 - SizeBits(its.b)));
    if (its.b == DataType::kUint4 && zero == 15) return 15 + static_cast<int>(block % 2);  // GPTQ's
    return is_unsigned() ? zero : zero - (1 << (SizeBits(its.b) - 1));
  }
  bool is_unsigned() const { return its.b == DataType::kUint4 || its.b == DataType::kUint8; }
  // An integer code less its zero point.
  int ValueOf(std::int64_t line, std::int64_t i) const {
    const int code = static_cast<int>(CodeOf(line, i));
    const int half = 1 << (SizeBits(its.b) - 1);
    const int value = !is_unsigned() && code >= half ? code - 2 * half : code;
    return value - ZeroOf(line, HasScalesOfLines() ? 0 : i / its.scale_k());
  }
  static float E4m3Of(std::uint32_t code) {
    if ((code & 0x7f) == 0x7f) return std::numeric_limits<float>::quiet_NaN();
    const auto exponent = static_cast<int>(code >> 3 & 15);
    const int fraction = static_cast<int>(code & 7) + (exponent == 0 ? 0 : 8);
    const float value =
        std::ldexp(static_cast<float>(fraction), exponent == 0 ? -9 : exponent - 10);
    return code < 128 ? value : -value;
  }
  // As a number of either format; of mxfp4 a quarter, which is finite in bf16 whatever the scale;
  // of nvfp4 without the tensor's scale.
  float WeightOf(std::int64_t line, std::int64_t i) const {
    const std::uint32_t code = CodeOf(line, i);
    if (its.is_integer()) return static_cast<float>(ValueOf(line, i));
    if (!its.is_e2m1()) return static_cast<float>(DecodeElement(its.b, code));
    constexpr float kE2m1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    const float number = code < 8 ? kE2m1[code] : -kE2m1[code - 8];
    const std::uint32_t scale = ScaleBitsOf(line, i / its.scale_k());
    if (its.is_nvfp4) return number * E4m3Of(scale);
    if (scale == 0xff) return std::numeric_limits<float>::quiet_NaN();
    return std::ldexp(number, static_cast<int>(scale) - 129);
  }
  static float COf(std::int64_t row, std::int64_t column) {
    return static_cast<float>((row * 3 + column) % 11) / 4 - 1;
  }
  static float BiasOf(std::int64_t column) { return static_cast<float>(column % 7) - 3; }

  std::uint32_t NarrowToD(float value) const {
    std::uint32_t bits;
    std::memcpy(&bits, &value, 4);
    if (its.d == DataType::kF32) return bits;
    return emulator::Narrow(
        its.d == DataType::kBf16 ? emulator::HalfFormat::kBf16 : emulator::HalfFormat::kF16, value);
  }
  void SetElement(std::uint8_t* at, std::int64_t index, float value) const {
    const std::uint32_t bits = NarrowToD(value);
    const std::int64_t size = SizeBits(its.d) / 8;
    std::memcpy(at + index * size, &bits, static_cast<std::size_t>(size));
  }
  void SetHalfOrFloat(Plane* plane, std::int64_t row, std::int64_t column, float value) const {
    if (its.d == DataType::kF32) {
      plane->Set(row, column, value);
    } else {
      plane->Set(row, column, static_cast<std::uint16_t>(NarrowToD(value)));
    }
  }

  // The place in a lane's words of bit `bit` of register j's code, half `half`, of a step. Where
  // those of E2M1 and E4M3 are of each register's lower code, the lowest first.
  std::int64_t PlaceOfBit(std::int64_t step, std::int64_t j, std::int64_t half,
                          std::int64_t bit) const {
    constexpr int kE2m1Places[4][4] = {
        {6, 7, 8, 15}, {2, 3, 4, 11}, {28, 29, 30, 5}, {0, 25, 26, 1}};
    constexpr int kE4m3Places[2][8] = {{4, 5, 6, 7, 8, 9, 10, 15}, {0, 1, 2, 3, 12, 13, 14, 11}};
    if (SizeBits(its.b) == 6) return PlaceOfSixBits(step, j, half, bit);
    if (SizeBits(its.b) == 8) {
      const std::int64_t place =
          its.b == DataType::kFp8E4M3 ? kE4m3Places[j % 2][bit] : 8 * (j % 2) + bit;
      return (step * 2 + j / 2) * 32 + 16 * half + place;
    }
    if (its.has_table()) return step * 32 + 8 * j + 4 * half + bit;
    return step * 32 +
           (its.is_e2m1() ? (kE2m1Places[j][bit] + 16 * half) % 32 : 16 * half + 4 * j + bit);
  }
  // Two steps have three words, the third of which has their highest bits.
  std::int64_t PlaceOfSixBits(std::int64_t step, std::int64_t j, std::int64_t half,
                              std::int64_t bit) const {
    constexpr int kLowest[2][4] = {{5, 1, 29, 25}, {4, 0, 28, 24}};
    constexpr int kHighest[2][2][4][2] = {
        {{{9, 15}, {5, 11}, {1, 7}, {13, 19}},  //
         {{8, 14}, {4, 10}, {0, 6}, {12, 18}}},
        {{{8, 15}, {6, 13}, {4, 11}, {2, 9}}, {{0, 7}, {14, 21}, {12, 19}, {10, 17}}}};
    const int type = its.b == DataType::kFp6E3M2 ? 0 : 1;
    const std::int64_t place =
        bit < 4 ? kLowest[type][j] + bit : kHighest[type][step % 2][j][bit - 4];
    return step / 2 * 96 + (bit < 4 ? step % 2 * 32 : 64) + (place + 16 * half) % 32;
  }

  // The packed planes from the words of packed.h, bit by bit, apart from any kernel.
  void PackByHand() {
    std::memset(packed_codes.data(), 0,
                static_cast<std::size_t>(Units(groups) * 256 * SizeBits(its.b)));
    for (std::int64_t line = 0; line < (its.n + 127) / 128 * 128; ++line) {
      for (std::int64_t g = 0; g < groups; ++g) PackCodesByHand(line, g);
      for (std::int64_t g = 0; g < ScaleGroups(); ++g) PackScalesByHand(line, g);
    }
  }
  static std::int64_t UnitOf(std::int64_t line, std::int64_t of_groups, std::int64_t g) {
    return (line / 64 * of_groups + g) * 4 + line / 16 % 4;
  }
  std::uint32_t BiasOfCodes() const {
    return its.b == DataType::kInt4 ? 8 : its.b == DataType::kUint8 ? 128 : 0;
  }
  void PackCodesByHand(std::int64_t line, std::int64_t g) {
    const std::int64_t bits = SizeBits(its.b);
    std::uint8_t* const piece = packed_codes.data() + UnitOf(line, groups, g) * 256 * bits;
    for (std::int64_t k = g * 128; k < g * 128 + 128; ++k) {
      const std::uint32_t code = line < its.n && k < its.k ? CodeOf(line, k) ^ BiasOfCodes() : 0;
      const std::int64_t lane = line % 8 * 4 + k % 8 / 2;
      const std::int64_t j = line % 16 / 8 + k % 16 / 8 * 2;
      for (std::int64_t bit = 0; bit < bits; ++bit) {
        const std::int64_t place = PlaceOfBit(k % 128 / 16, j, k % 2, bit);
        std::uint8_t& byte = piece[place / 128 * 512 + lane * 16 + place % 128 / 8];
        byte = static_cast<std::uint8_t>(byte | (code >> bit & 1) << (place % 8));
      }
    }
  }
  void PackScalesByHand(std::int64_t line, std::int64_t g) {
    const std::int64_t unit = UnitOf(line, ScaleGroups(), g);
    const std::int64_t place = line % 8 * 2 + line % 16 / 8;
    const std::int64_t count = ScalesOfGroup();
    for (std::int64_t nth = 0; nth < count; ++nth) {
      const std::int64_t block = g * count + nth;
      const bool is_there = line < its.n && block < problem.b_scaling.k_blocks(its.k);
      // A byte of nvfp4 is 8 less.
      const std::uint32_t scale =
          is_there ? ScaleBitsOf(line, block) + (its.is_nvfp4 ? 0xf8 : 0) : 0;
      const std::int64_t at = (unit * 16 + place) * count + nth;
      std::memcpy(packed_scales.data() + at * ScaleSize(), &scale,
                  static_cast<std::size_t>(ScaleSize()));
      const std::uint32_t offset = is_there ? OffsetBitsOf(line, block) : 0;
      std::memcpy(packed_offsets.data() + at * ScaleSize(), &offset,
                  static_cast<std::size_t>(ScaleSize()));
      if (!its.is_integer()) continue;
      const std::uint32_t zero =
          is_there ? static_cast<std::uint32_t>(ZeroOf(line, block)) + BiasOfCodes() : 0;
      packed_zeros.data()[at] = static_cast<std::uint8_t>(zero);
    }
  }

  Arguments MakeArguments() {
    Arguments arguments;
    arguments.a = a_plane.data();
    arguments.b = packed_codes.data();
    arguments.b_scales = packed_scales.data();
    arguments.b_zero_points = its.has_zero_points ? packed_zeros.data() : nullptr;
    arguments.b_offsets = its.has_offsets ? packed_offsets.data() : nullptr;
    arguments.workspace = workspace.data();
    if (its.is_nvfp4) arguments.b_tensor_scale = &tensor_scale;
    arguments.c = c_plane.data();
    arguments.bias = bias.data();
    arguments.d = d_plane.data();
    arguments.b_is_settled = its.b_is_settled;
    return arguments;
  }

  // Calls launch(target).
  template <class LaunchFunction>
  static emulator::Report RunIn(const LaunchFunction& launch, const emulator::Options& options) {
    emulator::Session session;
    session.options = options;
    LaunchTarget target;
    target.emulator = &session;
    const absl::Status status = launch(target);
    if (!status.ok() && session.report.ok()) session.report.message = status.ToString();
    return session.report;
  }

  // A row of A or a line of W as factors of 16 of K.
  using Line = std::vector<emulator::Factors>;
  template <class ValueBits>
  Line MakeLine(const ValueBits& bits_of) const {
    Line line(static_cast<std::size_t>(groups * 8));
    for (std::int64_t i = 0; i < groups * 128; ++i) {
      line[static_cast<std::size_t>(i / 16)].Set(RowFormat(), static_cast<int>(i % 16),
                                                 i < its.k ? bits_of(i) : std::uint16_t{0});
    }
    return line;
  }
  // A row of A, or the rows that a row of f32 is multiplied as.
  std::vector<Line> RowsOfA(std::int64_t row) const {
    if (its.a != DataType::kF32) return {MakeLine([&](std::int64_t i) { return AOf(row, i); })};
    std::vector<Line> parts;
    for (int part = 0; part < 3; ++part) {
      parts.push_back(MakeLine([&](std::int64_t i) { return PartOfA(row, i, part); }));
    }
    return parts;
  }
  // A line of W, as the terms whose products a step adds one after another.
  using Terms = std::vector<Line>;
  Terms LineOfW(std::int64_t line) const {
    Terms terms = {
        MakeLine([&](std::int64_t i) { return emulator::Narrow(RowFormat(), WeightOf(line, i)); })};
    if (!its.has_two_terms()) return terms;
    terms.push_back(MakeLine([&](std::int64_t i) {
      const float weight = WeightOf(line, i);
      return emulator::Narrow(
          RowFormat(),
          weight - emulator::Widen(RowFormat(), emulator::Narrow(RowFormat(), weight)));
    }));
    return terms;
  }

  // The sum of an element of D in the order that few.h states, or few_chain.h, from the planes as
  // they were sent.
  float SumOf(const Line& a, const Terms& w, std::int64_t line) const {
    if (LineHasNan(line)) return std::numeric_limits<float>::quiet_NaN();
    float total = 0;
    if (its.is_e2m1()) {
      for (std::size_t step = 0; step < a.size(); ++step) {
        total = emulator::RoundToF32(emulator::AlignedSum(total, a[step], w[0][step]));
      }
      return (its.is_nvfp4 ? tensor_scale : 4) * total;
    }
    const std::int64_t scale_k = its.scale_k();
    const bool is_whole = scale_k == 128 && !its.has_offsets;
    const Terms ones = {MakeLine([&](std::int64_t) { return emulator::Narrow(RowFormat(), 1); })};
    for (std::int64_t first = 0; first < groups * 128; first += 128) {
      float group = 0;
      for (std::int64_t i = first; i < first + 128; i += scale_k) {
        const float sum = SumOfSteps(a, w, i / 16, (i + scale_k) / 16);
        // Padding has a scale of 0, and adds nothing.
        const float scale = i < its.k ? ScaleAt(line, i) : 0;
        group = is_whole ? sum : std::fma(scale, sum, group);
        if (!its.has_offsets) continue;
        const float rows = SumOfSteps(a, ones, i / 16, (i + scale_k) / 16);
        group = std::fma(i < its.k ? OffsetAt(line, i) : 0, rows, group);
      }
      total = is_whole ? std::fma(ScaleAt(line, first), group, total) : total + group;
    }
    return total;
  }
  static float SumOfSteps(const Line& a, const Terms& w, std::int64_t first, std::int64_t end) {
    float sum = 0;
    for (std::int64_t i = first; i < end; ++i) {
      const auto step = static_cast<std::size_t>(i);
      for (const Line& term : w) {
        sum = emulator::RoundToF32(emulator::AlignedSum(sum, a[step], term[step]));
      }
    }
    return sum;
  }

  std::uint32_t BitsAt(std::int64_t row, std::int64_t column) const {
    return its.d == DataType::kF32 ? d_plane.Get<std::uint32_t>(row, column)
                                   : d_plane.Get<std::uint16_t>(row, column);
  }

  bool IsNanAt(std::int64_t row, std::int64_t column) const {
    const std::uint32_t bits = BitsAt(row, column);
    const std::uint32_t infinite = its.d == DataType::kF32    ? 0x7f800000
                                   : its.d == DataType::kBf16 ? 0x7f80
                                                              : 0x7c00;
    return (bits & (its.d == DataType::kF32 ? 0x7fffffff : 0x7fff)) > infinite;
  }

  // The bits that D should have, with alpha, beta and bias one after another in f32.
  std::uint32_t ExpectedBits(float sum, std::int64_t row, std::int64_t column) const {
    float value = sum;
    const Epilogue& epilogue = problem.epilogue;
    if (epilogue.alpha != 1 || epilogue.beta != 0 || epilogue.has_bias ||
        epilogue.activation != Activation::kNone) {
      value = static_cast<float>(epilogue.alpha) * value;
      if (epilogue.beta != 0) value += static_cast<float>(epilogue.beta) * COf(row, column);
      if (epilogue.has_bias) value += BiasOf(column);
      if (epilogue.activation == Activation::kRelu) value = value < 0 ? 0 : value;
    }
    return NarrowToD(value);
  }

  std::int64_t CountWrong() const {
    std::vector<Terms> lines;
    for (std::int64_t column = 0; column < its.n; ++column) lines.push_back(LineOfW(column));
    std::int64_t wrong = 0;
    for (std::int64_t row = 0; row < its.m; ++row) {
      const std::vector<Line> a = RowsOfA(row);
      for (std::int64_t column = 0; column < its.n; ++column) {
        const Terms& line = lines[static_cast<std::size_t>(column)];
        float sum = SumOf(a.back(), line, column);
        for (std::size_t part = a.size() - 1; part > 0; --part)
          sum += SumOf(a[part - 1], line, column);
        wrong += std::isnan(sum) ? !IsNanAt(row, column)
                                 : BitsAt(row, column) != ExpectedBits(sum, row, column);
      }
    }
    return wrong;
  }

  const QuantCase its;
  const Problem problem;
  const float tensor_scale = 0.0371F;  // of nvfp4
  const std::int64_t groups;
  Plane a_plane;
  Plane c_plane;
  Plane d_plane;
  Bytes codes;
  const std::int64_t scale_count;
  Bytes scales;
  Bytes zeros;
  Bytes offsets;
  Bytes packed_codes;
  Bytes packed_scales;
  Bytes packed_zeros;
  Bytes packed_offsets;
  Bytes workspace;
  Bytes bias;
};

}  // namespace gemmd::testing
