// Block-scaled products of tcgen05: their arithmetic, their descriptors, where elements and scales
// lie, against quant's exact values and a second model of the layouts.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "base/numbers/float_bits.h"
#include "base/numbers/quant/packed_codes.h"
#include "base/numbers/quant/small_float.h"
#include "kernels/emulator/arithmetic/scaled_block.h"
#include "kernels/emulator/arithmetic/tensor_core.h"
#include "kernels/ptx/tcgen05.h"
#include "tests/kernels/emulator/scaled_product.h"
#include "tests/kernels/emulator/tcgen05_model.h"

namespace gemmd::testing {
namespace {

using emulator::FactorFormat;
using ptx::Tcgen05MxType;

struct Format {
  Tcgen05MxType type;
  FactorFormat factor;
  const FloatFormat* decoder;
  int bits;
};
constexpr Format kFormats[] = {
    {Tcgen05MxType::kE4m3, FactorFormat::kE4m3, &kE4M3, 8},
    {Tcgen05MxType::kE5m2, FactorFormat::kE5m2, &kE5M2, 8},
    {Tcgen05MxType::kE2m3, FactorFormat::kE2m3, &kE2M3, 6},
    {Tcgen05MxType::kE3m2, FactorFormat::kE3m2, &kE3M2, 6},
    {Tcgen05MxType::kE2m1, FactorFormat::kE2m1, &kE2M1, 4},
};

// ------------------------------------------------------------ arithmetic

using Line = emulator::ScaledLine;

Line RandomLine(const Format& format, std::mt19937* random, bool is_wild) {
  Line line = {};
  line.format = format.factor;
  const std::uint32_t mask = (1u << format.bits) - 1;
  for (std::uint8_t& code : line.codes) {
    code = static_cast<std::uint8_t>((*random)() & mask);
    if ((*random)() % 4 == 0) code = 0;
    // Numbers alone, unless a test asks for all codes.
    if (!is_wild && !std::isfinite(DecodeFloat(*format.decoder, code))) code = 0;
  }
  line.scale = static_cast<std::uint8_t>(is_wild ? (*random)() : 120 + (*random)() % 15);
  return line;
}

emulator::Factors Definition(const Line& line) {
  emulator::Factors factors = {};
  factors.count = emulator::kMostBlockProducts;
  for (int k = 0; k < factors.count; ++k) factors.Set(line.format, k, line.codes[k]);
  factors.Scale(line.scale);
  return factors;
}

TEST(ScaledBlocks, EightAtATimeAreTheRuleForOne) {
  std::mt19937 random(1);
  for (int round = 0; round < 4000; ++round) {
    const bool is_wild = round % 2 == 1;
    const Line row = RandomLine(kFormats[random() % 5], &random, is_wild);
    std::array<Line, emulator::kBlockColumns> columns;
    for (Line& column : columns) column = RandomLine(kFormats[random() % 5], &random, is_wild);
    std::array<float, emulator::kBlockColumns> sums;
    for (float& sum : sums) {
      sum = std::ldexp(static_cast<float>(static_cast<std::int32_t>(random())),
                       static_cast<int>(random() % (is_wild ? 200 : 40)) - (is_wild ? 120 : 45));
      if (random() % 8 == 0) sum = 0;
    }
    std::array<float, emulator::kBlockColumns> expected;
    for (int i = 0; i < emulator::kBlockColumns; ++i) {
      expected[i] = emulator::RoundToF32(
          emulator::AlignedSum(sums[i], Definition(row), Definition(columns[i])));
    }
    emulator::ScaledRow prepared_row;
    emulator::ScaledColumns prepared_columns;
    emulator::PrepareScaledRow(row, &prepared_row);
    emulator::PrepareScaledColumns(columns, &prepared_columns);
    emulator::MultiplyAddScaled(prepared_row, prepared_columns, sums.data());
    for (int i = 0; i < emulator::kBlockColumns; ++i) {
      ASSERT_EQ(BitsOf(sums[i]), BitsOf(expected[i])) << "round " << round << ", column " << i;
    }
  }
}

// ------------------------------------------------------------ descriptors

TEST(Tcgen05MxDescriptors, SayWhatTheInstructionIs) {
  for (std::uint32_t flags = 0; flags < 256; ++flags) {
    for (const Format& a : kFormats) {
      for (const Format& b : kFormats) {
        ptx::Tcgen05MxForm form;
        form.a_type = a.type;
        form.b_type = b.type;
        form.rows = (flags & 1) != 0 ? 256 : 128;
        form.columns = (flags & 2) != 0 ? 256 : 48;
        form.a_scale_id = static_cast<int>(flags >> 2 & 3);
        form.b_scale_id = static_cast<int>(flags >> 4 & 3);
        form.a_major = static_cast<ptx::Major>(flags >> 6 & 1);
        form.b_major = static_cast<ptx::Major>(flags >> 7 & 1);
        form.negate_a = (flags * 5 >> 3 & 1) != 0;
        form.negate_b = (flags * 3 >> 2 & 1) != 0;
        const ModelMxInstruction model(ptx::MakeTcgen05MxInstruction(form));
        EXPECT_EQ(model.a_type, static_cast<std::uint64_t>(a.type));
        EXPECT_EQ(model.b_type, static_cast<std::uint64_t>(b.type));
        EXPECT_EQ(model.m, static_cast<std::uint64_t>(form.rows));
        EXPECT_EQ(model.n, static_cast<std::uint64_t>(form.columns));
        EXPECT_EQ(model.a_scale_id, flags >> 2 & 3);
        EXPECT_EQ(model.b_scale_id, flags >> 4 & 3);
        EXPECT_EQ(model.transpose_a, flags >> 6 & 1);
        EXPECT_EQ(model.transpose_b, flags >> 7 & 1);
        EXPECT_EQ(model.negate_a, form.negate_a ? 1u : 0u);
        EXPECT_EQ(model.negate_b, form.negate_b ? 1u : 0u);
        EXPECT_EQ(model.scale_type, 1u);
        EXPECT_EQ(model.sparsity + model.reserved, 0u);
      }
    }
  }
}

// ------------------------------------------------------------ products

struct ProductCase {
  int blocks = 1;
  std::uint32_t columns = 32;
  Format a = kFormats[0];
  Format b = kFormats[0];
  ptx::Swizzle swizzle = ptx::Swizzle::kNone;
  ptx::Major major = ptx::Major::kK;
  int a_scale_id = 0;
  int b_scale_id = 0;
  bool negate_a = false;
  bool negate_b = false;
  bool lacks_scales = false;  // of B
  std::uint32_t flipped = 0;  // bits of the instruction descriptor
};

constexpr std::uint32_t kRows = ScaledImage::kRows;

// Operands of 32 of K, with scales for 128 of it, of which one is used.
struct Operand {
  Operand(const Format& format, std::uint32_t lines, std::uint32_t seed)
      : codes(std::size_t{lines} * 32), scales(std::size_t{lines} * 4) {
    std::mt19937 random(seed);
    for (std::uint8_t& code : codes) {
      code = static_cast<std::uint8_t>(random() & ((1u << format.bits) - 1));
      if (!std::isfinite(DecodeFloat(*format.decoder, code))) code = 0;
    }
    for (std::uint8_t& scale : scales) scale = static_cast<std::uint8_t>(122 + random() % 11);
  }
  std::vector<std::uint8_t> codes;   // line * 32 + k
  std::vector<std::uint8_t> scales;  // line * 4 + id
};

// Sixteen elements of K take 16 bytes: of 6 or 4 bits packed from the first on.
void Put(const Operand& operand, const Format& format, const ModelOperand& model,
         std::uint32_t first, std::uint32_t lines, ScaledImage* image) {
  for (std::uint32_t line = 0; line < lines; ++line) {
    std::array<std::uint8_t, 32> packed = {};
    for (std::uint32_t k = 0; k < 32; ++k) {
      StoreCode(&packed[k / 16 * 16], format.bits, k % 16, operand.codes[(first + line) * 32 + k]);
    }
    for (std::uint32_t k = 0; k < 32; ++k) image->Set(model.Address(line, k), packed[k]);
  }
}

ModelOperand MakeOperand(const ProductCase& test, std::uint32_t lines, std::uint32_t start) {
  const auto span = static_cast<std::uint32_t>(test.swizzle);
  ModelOperand operand = {};
  operand.bits = span == 0 ? 0 : span == 32 ? 1 : span == 64 ? 2 : 3;
  operand.is_mn_major = test.major == ptx::Major::kMn;
  operand.element_bytes = 1;
  operand.start = start;
  if (span == 0) {
    operand.stride = operand.is_mn_major ? 4 * 144 : 144;
    operand.leading = operand.is_mn_major ? 144 : lines / 8 * 144 + 48;
  } else {
    operand.stride = 8 * span;
    operand.leading = operand.is_mn_major ? 4 * 8 * span : 16;
  }
  return operand;
}

// The factors of one line, as the rule takes them.
emulator::Factors FactorsOf(const Operand& operand, const Format& format, std::uint32_t line,
                            int id, bool is_negated) {
  emulator::Factors factors = {};
  factors.count = 32;
  const std::uint32_t sign = is_negated ? 1u << (format.bits - 1) : 0;
  for (int k = 0; k < 32; ++k) {
    factors.Set(format.factor, k, operand.codes[line * 32 + static_cast<std::uint32_t>(k)] ^ sign);
  }
  factors.Scale(operand.scales[line * 4 + static_cast<std::uint32_t>(id)]);
  return factors;
}

// Counts the elements of D whose bits are not the rule's, or that are further from the exact value
// than the rule allows; -1 where the emulator refuses.
int CountWrong(const ProductCase& test, std::string* message, std::uint64_t seed = 1) {
  const auto blocks = static_cast<std::uint32_t>(test.blocks);
  const std::uint32_t columns = test.columns / blocks;  // of B, in a block
  const Operand a(test.a, kRows * blocks, 2);
  const Operand b(test.b, test.columns, 3);
  ScaledProduct product;
  product.blocks = test.blocks;
  product.columns = test.columns;
  product.swizzle = test.swizzle;
  product.a = MakeOperand(test, kRows, ScaledImage::kA);
  product.b = MakeOperand(test, columns, ScaledImage::kB);
  product.lacks_scales = test.lacks_scales;
  ScaledImages images;
  for (std::uint32_t rank = 0; rank < blocks; ++rank) {
    Put(a, test.a, product.a, rank * kRows, kRows, &images[rank]);
    Put(b, test.b, product.b, rank * columns, columns, &images[rank]);
    images[rank].PutScales(ScaledImage::kAScales, kRows, [&](std::uint32_t line, std::uint32_t i) {
      return a.scales[(rank * kRows + line) * 4 + i];
    });
    images[rank].PutScales(
        ScaledImage::kBScales, test.columns,
        [&](std::uint32_t line, std::uint32_t i) { return b.scales[line * 4 + i]; });
  }
  ptx::Tcgen05MxForm form;
  form.a_type = test.a.type;
  form.b_type = test.b.type;
  form.rows = static_cast<int>(kRows * blocks);
  form.columns = static_cast<int>(test.columns);
  form.a_scale_id = test.a_scale_id;
  form.b_scale_id = test.b_scale_id;
  form.a_major = form.b_major = test.major;
  form.negate_a = test.negate_a;
  form.negate_b = test.negate_b;
  product.instruction = ptx::MakeTcgen05MxInstruction(form) ^ test.flipped;
  std::vector<float> out;
  const emulator::Report report =
      RunScaledProduct<ptx::Tcgen05ScaledKind::kMxf8f6f4>(product, images, seed, &out);
  *message = report.message;
  if (!report.ok()) return -1;
  int wrong = 0;
  for (std::uint32_t row = 0; row < kRows * blocks; ++row) {
    const auto row_factors = FactorsOf(a, test.a, row, test.a_scale_id, test.negate_a);
    for (std::uint32_t column = 0; column < test.columns; ++column) {
      const auto column_factors = FactorsOf(b, test.b, column, test.b_scale_id, test.negate_b);
      const float sum = out[row * 256 + column];
      wrong += sum != emulator::RoundToF32(emulator::AlignedSum(0, row_factors, column_factors));
      // By quant's decoders: each of 32 terms loses less than 2^-25 of the largest product of two
      // factors rounded up to a power of two, then the sum less than 2^-23 of itself.
      const double scale =
          DecodeE8M0(a.scales[row * 4 + static_cast<std::uint32_t>(test.a_scale_id)]) *
          DecodeE8M0(b.scales[column * 4 + static_cast<std::uint32_t>(test.b_scale_id)]);
      double exact = 0;
      double largest = 0;
      for (std::uint32_t k = 0; k < 32; ++k) {
        const double product = DecodeFloat(*test.a.decoder, a.codes[row * 32 + k]) *
                               DecodeFloat(*test.b.decoder, b.codes[column * 32 + k]) * scale;
        exact += product;
        largest = std::max(largest, std::fabs(product));
      }
      if (test.negate_a != test.negate_b) exact = -exact;
      wrong += std::fabs(sum - exact) > 32 * 0x1p-25 * largest + 0x1p-23 * std::fabs(exact);
    }
  }
  return wrong;
}

void ExpectRight(const ProductCase& test) {
  std::string message;
  EXPECT_EQ(CountWrong(test, &message), 0)
      << message << "; blocks " << test.blocks << ", N " << test.columns << ", types "
      << static_cast<int>(test.a.type) << static_cast<int>(test.b.type) << ", swizzle "
      << static_cast<int>(test.swizzle) << ", MN-major " << static_cast<int>(test.major)
      << ", scale ids " << test.a_scale_id << test.b_scale_id;
}

TEST(Tcgen05MxProducts, TakeEveryPairOfTypes) {
  for (const Format& a : kFormats) {
    for (const Format& b : kFormats) {
      ProductCase test;
      test.a = a;
      test.b = b;
      for (test.blocks = 1; test.blocks <= 2; ++test.blocks) ExpectRight(test);
    }
  }
}

TEST(Tcgen05MxProducts, TakeTheScalesThatTheirIdsSay) {
  ProductCase test;
  for (test.blocks = 1; test.blocks <= 2; ++test.blocks) {
    for (test.a_scale_id = 0; test.a_scale_id < 4; ++test.a_scale_id) {
      for (test.b_scale_id = 0; test.b_scale_id < 4; ++test.b_scale_id) ExpectRight(test);
    }
  }
}

TEST(Tcgen05MxProducts, LieWhereTheLayoutsSay) {
  ProductCase test;
  for (test.blocks = 1; test.blocks <= 2; ++test.blocks) {
    for (const ptx::Swizzle swizzle :
         {ptx::Swizzle::kNone, ptx::Swizzle::k32B, ptx::Swizzle::k128B}) {
      for (const ptx::Major major : {ptx::Major::kK, ptx::Major::kMn}) {
        test.swizzle = swizzle;
        test.major = major;
        test.columns = 256;
        ExpectRight(test);
      }
    }
    test.major = ptx::Major::kK;
    test.swizzle = ptx::Swizzle::k128B;
    for (const std::uint32_t columns : {16u, 144u, 192u}) {
      test.columns = columns;
      ExpectRight(test);
    }
    test.columns = 32;
    test.negate_a = true;
    ExpectRight(test);
    test.negate_b = true;
    ExpectRight(test);
    test.negate_a = test.negate_b = false;
  }
}

// A wrong value of any field is refused, or D is wrong.
TEST(Tcgen05MxProducts, EachFieldOfTheInstructionMatters) {
  for (int bit = 0; bit < 32; ++bit) {
    ProductCase test;
    test.columns = 128;
    test.flipped = 1u << bit;
    for (std::uint64_t seed = 1; seed <= 2; ++seed) {
      std::string message;
      EXPECT_NE(CountWrong(test, &message, seed), 0) << "bit " << bit << ", seed " << seed;
    }
  }
}

TEST(Tcgen05MxProducts, NeedTheirScales) {
  ProductCase test;
  test.lacks_scales = true;
  for (test.blocks = 1; test.blocks <= 2; ++test.blocks) {
    std::string message;
    EXPECT_EQ(CountWrong(test, &message), -1);
    EXPECT_NE(message.find("tensor memory lane 0 column 260"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace gemmd::testing
