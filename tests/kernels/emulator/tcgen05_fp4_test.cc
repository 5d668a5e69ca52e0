// Block-scaled products of e2m1 by tcgen05: descriptors, where elements and scales lie, and sums,
// against quant's decoders, a second model of the layouts and a second form of the rule.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/numbers/float_bits.h"
#include "base/numbers/quant/packed_codes.h"
#include "base/numbers/quant/small_float.h"
#include "kernels/emulator/arithmetic/fp4_block.h"
#include "kernels/ptx/tcgen05.h"
#include "tests/kernels/emulator/scaled_product.h"
#include "tests/kernels/emulator/tcgen05_model.h"
#include "tests/kernels/mma/mx_run.h"

namespace gemmd::testing {
namespace {

using emulator::Fp4ScaleType;
using ptx::Tcgen05ScaledKind;

// ------------------------------------------------------------ arithmetic

struct RandomLine {
  emulator::OperandLine<std::uint8_t> packed;
  std::array<std::uint8_t, 4> scales;
};

RandomLine MakeRandomLine(Fp4ScaleType type, std::mt19937* random) {
  RandomLine line;
  for (std::uint8_t& byte : line.packed) byte = static_cast<std::uint8_t>((*random)());
  if ((*random)() % 8 == 0) line.packed = {};
  for (std::uint8_t& scale : line.scales) {
    do scale = static_cast<std::uint8_t>((*random)());
    while (type == Fp4ScaleType::kE8m0 ? scale == 0xff : (scale & 0x7f) == 0x7f);
  }
  return line;
}

Fp4Block DecodeLine(const RandomLine& line, Fp4ScaleType type) {
  Fp4Block block;
  for (std::size_t g = 0; g < 4; ++g) {
    const auto [significand, exponent] =
        type == Fp4ScaleType::kE8m0 ? SplitFloat(DecodeE8M0(line.scales[g]), -127)
                                    : SplitFloat(DecodeFloat(kE4M3, line.scales[g] & 0x7fu), -6);
    block[g].significand = significand;
    block[g].exponent = exponent;
    for (std::size_t i = 0; i < 16; ++i) {
      const std::uint32_t code =
          LoadCode(line.packed.data(), 4, static_cast<std::int64_t>(16 * g + i));
      block[g].values[i] = DecodeFloat(kE2M1, code);
    }
  }
  return block;
}

TEST(Fp4Blocks, SumAsTheRuleSays) {
  std::mt19937 random(1);
  for (const Fp4ScaleType type : {Fp4ScaleType::kE8m0, Fp4ScaleType::kE4m3}) {
    for (int round = 0; round < 20000; ++round) {
      const RandomLine row = MakeRandomLine(type, &random);
      const RandomLine column = MakeRandomLine(type, &random);
      float addend = std::ldexp(static_cast<float>(static_cast<std::int32_t>(random())),
                                static_cast<int>(random() % 120) - 80);
      if (random() % 8 == 0) addend = 0;
      const float sum = emulator::MultiplyAddFp4(
          addend, emulator::PrepareFp4Line(row.packed, false, type, row.scales),
          emulator::PrepareFp4Line(column.packed, false, type, column.scales));
      const float right = MultiplyAddBlock(addend, DecodeLine(row, type), DecodeLine(column, type));
      ASSERT_EQ(BitsOf(sum), BitsOf(right)) << "round " << round;
    }
  }
}

TEST(Fp4Blocks, NanIsCanonicalAndAnInfiniteAddendStays) {
  const auto line = [](Fp4ScaleType type, std::uint8_t scale) {
    return emulator::PrepareFp4Line({0x22}, false, type, {scale, 64, 64, 64});
  };
  const emulator::Fp4Line one = line(Fp4ScaleType::kE8m0, 127);
  for (const emulator::Fp4Line& nan :
       {line(Fp4ScaleType::kE8m0, 0xff), line(Fp4ScaleType::kE4m3, 0x7f),
        line(Fp4ScaleType::kE4m3, 0xff)}) {
    EXPECT_EQ(BitsOf(emulator::MultiplyAddFp4(1, nan, one)), 0x7fffffffu);
    EXPECT_EQ(BitsOf(emulator::MultiplyAddFp4(1, one, nan)), 0x7fffffffu);
  }
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(emulator::MultiplyAddFp4(-infinity, one, one), -infinity);
  EXPECT_EQ(BitsOf(emulator::MultiplyAddFp4(std::nanf(""), one, one)), 0x7fffffffu);
}

// ------------------------------------------------------------ descriptors

// PTX ISA, the table of .kind::mxf4 and .kind::mxf4nvf4: 7-9 and 10-11 are types, bit 12 reserved.
TEST(Tcgen05Fp4Descriptors, SayWhatTheInstructionIs) {
  for (std::uint32_t flags = 0; flags < 64; ++flags) {
    ptx::Tcgen05Fp4Form form;
    form.has_e4m3_scales = (flags & 1) != 0;
    form.rows = (flags & 2) != 0 ? 256 : 128;
    form.columns = (flags & 4) != 0 ? 256 : 48;
    form.a_scale_id = (flags & 8) != 0 ? 2 : 0;
    form.b_scale_id = (flags & 16) != 0 ? 2 : 0;
    form.negate_a = (flags & 32) != 0;
    form.negate_b = (flags & 8) == 0;
    const ModelMxInstruction model(ptx::MakeTcgen05Fp4Instruction(form));
    EXPECT_EQ(model.a_type, 1u);
    EXPECT_EQ(model.b_type, 1u) << "with bit 12, which is 0";
    EXPECT_EQ(model.m, static_cast<std::uint64_t>(form.rows));
    EXPECT_EQ(model.n, static_cast<std::uint64_t>(form.columns));
    EXPECT_EQ(model.a_scale_id, static_cast<std::uint64_t>(form.a_scale_id));
    EXPECT_EQ(model.b_scale_id, static_cast<std::uint64_t>(form.b_scale_id));
    EXPECT_EQ(model.negate_a, form.negate_a ? 1u : 0u);
    EXPECT_EQ(model.negate_b, form.negate_b ? 1u : 0u);
    EXPECT_EQ(model.scale_type, form.has_e4m3_scales ? 0u : 1u);
    EXPECT_EQ(model.transpose_a + model.transpose_b + model.sparsity + model.reserved, 0u);
  }
}

// ------------------------------------------------------------ products

struct ProductCase {
  Tcgen05ScaledKind kind = Tcgen05ScaledKind::kMxf4;
  bool has_e4m3_scales = false;
  int blocks = 1;
  std::uint32_t columns = 32;
  bool is_swizzled = false;
  int a_scale_id = 0;
  int b_scale_id = 0;
  bool negate_a = false;
  bool negate_b = false;
  std::uint32_t flipped = 0;  // bits of the instruction descriptor

  std::size_t scales() const { return kind == Tcgen05ScaledKind::kMxf4 ? 2 : 4; }
  Fp4ScaleType scale_type() const {
    return has_e4m3_scales ? Fp4ScaleType::kE4m3 : Fp4ScaleType::kE8m0;
  }
};

constexpr std::uint32_t kRows = ScaledImage::kRows;

// Lines of 64 of K, each with a word of four scales.
std::vector<RandomLine> MakeOperand(const ProductCase& test, std::uint32_t lines,
                                    std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<RandomLine> operand;
  for (std::uint32_t i = 0; i < lines; ++i) {
    operand.push_back(MakeRandomLine(test.scale_type(), &random));
    for (std::uint8_t& scale : operand.back().scales) {
      scale = static_cast<std::uint8_t>(test.has_e4m3_scales ? 20 + random() % 64
                                                             : 122 + random() % 11);
    }
  }
  return operand;
}

void Put(const std::vector<RandomLine>& operand, const ModelOperand& model, std::uint32_t first,
         std::uint32_t lines, ScaledImage* image) {
  for (std::uint32_t line = 0; line < lines; ++line) {
    for (std::uint32_t k = 0; k < 32; ++k) {
      image->Set(model.Address(line, k), operand[first + line].packed[k]);
    }
  }
}

ModelOperand MakeModel(const ProductCase& test, std::uint32_t lines, std::uint32_t start) {
  ModelOperand operand = {};
  operand.bits = test.is_swizzled ? 3 : 0;
  operand.element_bytes = 1;  // two elements
  operand.start = start;
  operand.stride = test.is_swizzled ? 1024 : 144;
  operand.leading = test.is_swizzled ? 16 : lines / 8 * 144 + 48;
  return operand;
}

// A line as its scale id and its sign say.
Fp4Block Effective(const ProductCase& test, RandomLine line, int id, bool is_negated) {
  if (test.scales() == 2) {
    const std::uint8_t first = line.scales[static_cast<std::size_t>(id)];
    const std::uint8_t second = line.scales[static_cast<std::size_t>(id) + 1];
    line.scales = {first, first, second, second};
  }
  Fp4Block block = DecodeLine(line, test.scale_type());
  for (Fp4Group& group : block) {
    for (double& value : group.values) {
      if (is_negated) value = -value;
    }
  }
  return block;
}

// Counts the elements of D whose bits are wrong; -1 where the emulator refuses.
int CountWrong(const ProductCase& test, std::string* message) {
  const auto blocks = static_cast<std::uint32_t>(test.blocks);
  const std::uint32_t columns = test.columns / blocks;  // of B, in a block
  const std::vector<RandomLine> a = MakeOperand(test, kRows * blocks, 2);
  const std::vector<RandomLine> b = MakeOperand(test, test.columns, 3);
  ScaledProduct product;
  product.blocks = test.blocks;
  product.columns = test.columns;
  product.swizzle = test.is_swizzled ? ptx::Swizzle::k128B : ptx::Swizzle::kNone;
  product.a = MakeModel(test, kRows, ScaledImage::kA);
  product.b = MakeModel(test, columns, ScaledImage::kB);
  ScaledImages images;
  for (std::uint32_t rank = 0; rank < blocks; ++rank) {
    Put(a, product.a, rank * kRows, kRows, &images[rank]);
    Put(b, product.b, rank * columns, columns, &images[rank]);
    images[rank].PutScales(ScaledImage::kAScales, kRows, [&](std::uint32_t line, std::uint32_t i) {
      return a[rank * kRows + line].scales[i];
    });
    images[rank].PutScales(ScaledImage::kBScales, test.columns,
                           [&](std::uint32_t line, std::uint32_t i) { return b[line].scales[i]; });
  }
  ptx::Tcgen05Fp4Form form;
  form.has_e4m3_scales = test.has_e4m3_scales;
  form.rows = static_cast<int>(kRows * blocks);
  form.columns = static_cast<int>(test.columns);
  form.a_scale_id = test.a_scale_id;
  form.b_scale_id = test.b_scale_id;
  form.negate_a = test.negate_a;
  form.negate_b = test.negate_b;
  product.instruction = ptx::MakeTcgen05Fp4Instruction(form) ^ test.flipped;
  std::vector<float> out;
  const emulator::Report report =
      test.kind == Tcgen05ScaledKind::kMxf4
          ? RunScaledProduct<Tcgen05ScaledKind::kMxf4>(product, images, 1, &out)
          : RunScaledProduct<Tcgen05ScaledKind::kMxf4nvf4>(product, images, 1, &out);
  *message = report.message;
  if (!report.ok()) return -1;
  int wrong = 0;
  for (std::uint32_t row = 0; row < kRows * blocks; ++row) {
    const Fp4Block row_block = Effective(test, a[row], test.a_scale_id, test.negate_a);
    for (std::uint32_t column = 0; column < test.columns; ++column) {
      const Fp4Block column_block = Effective(test, b[column], test.b_scale_id, test.negate_b);
      wrong +=
          BitsOf(out[row * 256 + column]) != BitsOf(MultiplyAddBlock(0, row_block, column_block));
    }
  }
  return wrong;
}

void ExpectRight(const ProductCase& test) {
  std::string message;
  EXPECT_EQ(CountWrong(test, &message), 0)
      << message << "; kind " << static_cast<int>(test.kind) << ", blocks " << test.blocks << ", N "
      << test.columns << ", E4M3 scales " << test.has_e4m3_scales << ", scale ids "
      << test.a_scale_id << test.b_scale_id;
}

TEST(Tcgen05Fp4Products, TakeTheScalesThatTheirKindAndIdsSay) {
  for (const int blocks : {1, 2}) {
    ProductCase test;
    test.blocks = blocks;
    for (const int a_id : {0, 2}) {
      for (const int b_id : {0, 2}) {
        test.a_scale_id = a_id;
        test.b_scale_id = b_id;
        ExpectRight(test);
      }
    }
    test = {};
    test.blocks = blocks;
    test.kind = Tcgen05ScaledKind::kMxf4nvf4;
    ExpectRight(test);
    test.has_e4m3_scales = true;
    ExpectRight(test);
  }
}

TEST(Tcgen05Fp4Products, LieWhereTheLayoutsSay) {
  for (const int blocks : {1, 2}) {
    for (const bool is_swizzled : {false, true}) {
      for (const std::uint32_t columns : {16u, 144u, 256u}) {
        ProductCase test;
        test.kind = Tcgen05ScaledKind::kMxf4nvf4;
        test.has_e4m3_scales = true;
        test.blocks = blocks;
        test.is_swizzled = is_swizzled;
        test.columns = columns;
        test.negate_a = columns == 16;
        test.negate_b = columns == 144;
        ExpectRight(test);
      }
    }
  }
}

// A wrong value of any field is refused, or D is wrong. The types' bits have no other meaning, and
// bit 23 says for mxf4nvf4 which scales they are.
TEST(Tcgen05Fp4Products, EachFieldOfTheInstructionMatters) {
  for (const auto kind : {Tcgen05ScaledKind::kMxf4, Tcgen05ScaledKind::kMxf4nvf4}) {
    for (int bit = 0; bit < 32; ++bit) {
      ProductCase test;
      test.kind = kind;
      test.has_e4m3_scales = kind == Tcgen05ScaledKind::kMxf4nvf4;
      test.columns = 128;
      test.flipped = 1u << bit;
      std::string message;
      EXPECT_NE(CountWrong(test, &message), 0) << "bit " << bit;
    }
  }
}

}  // namespace
}  // namespace gemmd::testing
