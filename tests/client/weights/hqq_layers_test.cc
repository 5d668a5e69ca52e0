#include "client/weights/layers/hqq_layers.h"

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/numbers/float_bits.h"
#include "client/weights/weight_file.h"
#include "client/weights/weight_form.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/testing/weight_bytes.h"
#include "tests/client/weights/expected_matrix.h"

namespace gemmd::client {
namespace {

using ::gemmd::testing::Little;
using ::testing::HasSubstr;

using Shape = std::vector<std::uint64_t>;

WeightTensor PlaneOf(const std::string& plane, const std::string& type, Shape shape,
                     std::string bytes) {
  return Tensor("l." + plane, type, std::move(shape), std::move(bytes));
}

WeightTensor Number(const std::string& plane, std::uint32_t number) {
  return PlaneOf(plane, "I32", {}, Little(number, 4));
}

// A layer in BF16, whose scales and zero points have eight bits of fraction.
struct Hqq {
  std::uint64_t bits = 4;
  std::uint64_t n;
  std::uint64_t k;
  std::uint64_t group;
  std::vector<std::uint32_t> codes;
  std::vector<float> scales;
  std::vector<float> zeros;

  Hqq(std::uint64_t lines, std::uint64_t columns, std::uint64_t group_size,
      std::uint64_t bits_of_codes = 4)
      : bits(bits_of_codes), n(lines), k(columns), group(group_size) {
    std::mt19937 random(5);
    const std::uint32_t highest = (1U << bits) - 1;
    for (std::uint64_t i = 0; i < n * k; ++i) codes.push_back(random() & highest);
    for (std::uint64_t i = 0; i < n * k / group; ++i) {
      scales.push_back(std::ldexp(static_cast<float>(128 + random() % 128), -14));
      zeros.push_back(std::ldexp(static_cast<float>(128 + random() % 128), -5));
    }
  }

  static std::string Bf16(const std::vector<float>& values) {
    std::string bytes;
    for (const float each : values) bytes += Little(BitsOf(each) >> 16, 2);
    return bytes;
  }

  // The first part of all codes is highest.
  std::vector<WeightTensor> Tensors() const {
    const std::uint64_t in_byte = 8 / bits;
    std::string packed;
    for (std::uint64_t i = 0; i < codes.size() / in_byte; ++i) {
      std::uint32_t byte = 0;
      for (std::uint64_t part = 0; part < in_byte; ++part) {
        byte = byte << bits | codes[i + part * (codes.size() / in_byte)];
      }
      packed += static_cast<char>(byte);
    }
    return {PlaneOf("W_q", "U8", {n * k / group / in_byte, group}, packed),
            PlaneOf("scale", "BF16", {n * k / group, 1}, Bf16(scales)),
            PlaneOf("zero", "BF16", {n * k / group, 1}, Bf16(zeros)),
            PlaneOf("shape", "I64", {2}, Little(n, 8) + Little(k, 8)),
            Number("nbits", static_cast<std::uint32_t>(bits)),
            Number("group_size", static_cast<std::uint32_t>(group)),
            Number("axis", 1),
            PlaneOf("packing", "U8", {7}, std::to_string(bits) + "bit_u8"),
            PlaneOf("round_zero", "U8", {}, "\1")};
  }

  double Value(std::uint64_t line, std::uint64_t at) const {
    const std::uint64_t block = line * (k / group) + at / group;
    return (static_cast<double>(codes[line * k + at]) - double{zeros[block]}) *
           double{scales[block]};
  }
};

TEST(HqqLayersTest, ZeroPointsThatAreNotWholeBecomeOffsets) {
  for (const auto& [group, format] :
       {std::pair<std::uint64_t, const char*>{16, "int4-g16-f32-offset"},
        {32, "int4-g32-f32-offset"},
        {64, "int4-g64-f32-offset"},
        {128, "int4-g128-f32-offset"},
        {256, "int4-g128-f32-offset"}}) {
    for (const std::uint64_t n : {2, 6, 160}) {
      const Hqq layer(n, 512, group);
      const std::vector<WeightTensor> made = CombineLayers(layer.Tensors(), {});
      ASSERT_EQ(made.size(), 1U);
      EXPECT_EQ(made[0].name, "l.weight");
      EXPECT_EQ(made[0].type, "HQQ");
      ExpectMatrix(made[0], format, [&layer](std::uint64_t line, std::uint64_t at) {
        return layer.Value(line, at);
      });
    }
  }
}

TEST(HqqLayersTest, OtherBitsShareBytesToo) {
  for (const auto& [bits, format] :
       {std::pair<std::uint64_t, const char*>{1, "int4-g64-f32-offset"},
        {2, "int4-g64-f32-offset"},
        {8, "uint8-g64-offset"}}) {
    const Hqq layer(24, 128, 64, bits);
    const std::vector<WeightTensor> made = CombineLayers(layer.Tensors(), {});
    ExpectMatrix(made.at(0), format,
                 [&layer](std::uint64_t line, std::uint64_t at) { return layer.Value(line, at); });
  }
}

TEST(HqqLayersTest, OffsetsByScalesOfF32AreRoundedOnce) {
  const Hqq layer(2, 64, 64);
  std::vector<WeightTensor> tensors = layer.Tensors();
  const float scale = 0.1F;
  const float zero = 7.3F;
  tensors[1] = PlaneOf("scale", "F32", {2, 1}, Little(BitsOf(scale), 4) + Little(BitsOf(scale), 4));
  tensors[2] = PlaneOf("zero", "F32", {2, 1}, Little(BitsOf(zero), 4) + Little(BitsOf(zero), 4));
  const auto offset = static_cast<float>(-double{zero} * double{scale});
  ExpectMatrix(CombineLayers(tensors, {}).at(0), "int4-g64-f32-offset",
               [&](std::uint64_t line, std::uint64_t at) {
                 return double{scale} * static_cast<double>(layer.codes[line * 64 + at]) +
                        double{offset};
               });
}

TEST(HqqLayersTest, ALayerWithoutAFormSaysWhy) {
  const Hqq layer(6, 128, 64);
  const std::vector<WeightTensor> good = layer.Tensors();
  const auto why_of = [](const std::vector<WeightTensor>& tensors) {
    const std::vector<WeightTensor> made = CombineLayers(tensors, {});
    EXPECT_EQ(made.size(), 1U);
    return std::string(FormOf(made.at(0)).status().message());
  };
  const auto why = [&](std::size_t changed, const WeightTensor& tensor) {
    std::vector<WeightTensor> tensors = good;
    tensors[changed] = tensor;
    return why_of(tensors);
  };
  const std::string closest =
      "; int4-g64-f16-zp is closest: gemm quantize makes it of the f16 or f32 file";
  EXPECT_EQ(why_of(good), "");
  EXPECT_EQ(why(4, Number("nbits", 3)),
            "HQQ has no form here: its nbits is 3; 1, 2, 4 and 8 are read" + closest);
  EXPECT_EQ(why(4, Number("nbits", 9)),
            "HQQ has no form here: its nbits is 9; it must be 1 to 8" + closest);
  EXPECT_EQ(why(6, Number("axis", 0)), "HQQ has no form here: its axis is 0; 1 is read" + closest);
  EXPECT_EQ(why(5, Number("group_size", ~0U)),
            "HQQ has no form here: its group_size is -1; it must be at least 1" + closest);
  EXPECT_EQ(why(5, Number("group_size", 48)),
            "HQQ has no form here: its shape is [6, 128], and its groups have 48: N must be a "
            "multiple of 2, and K of that" +
                closest);
  EXPECT_EQ(why(5, PlaneOf("group_size", "I64", {}, Little(64, 8))),
            "HQQ has no form here: its group_size is I64 of []; it must be I32 of []");
  EXPECT_EQ(why(7, PlaneOf("packing", "U8", {7}, "8bit_u8")),
            "HQQ has no form here: its packing is \"8bit_u8\", and 4bit_u8 is read");
  EXPECT_EQ(why(3, PlaneOf("shape", "I64", {2}, Little(6, 8) + Little(~0ULL, 8))),
            "HQQ has no form here: its shape has 18446744073709551615; a dimension is 1 to "
            "2147483647");
  EXPECT_EQ(why(3, PlaneOf("shape", "I64", {2}, Little(7, 8) + Little(128, 8))),
            "HQQ has no form here: its shape is [7, 128], and its groups have 64: N must be a "
            "multiple of 2, and K of that" +
                closest);
  EXPECT_EQ(why(3, PlaneOf("shape", "I64", {2}, Little(8, 8) + Little(128, 8))),
            "HQQ has no form here: its W_q is U8 of [6, 64]; it must be U8 of [8, 64]");
  EXPECT_EQ(why(0, PlaneOf("W_q", "BF16", {6, 32}, std::string(384, '1'))),
            "HQQ has no form here: its W_q is BF16 of [6, 32]; it must be U8 of [6, 64]");
  EXPECT_EQ(why(1, PlaneOf("scale", "F32", {12, 1}, std::string(48, '1'))),
            "HQQ has no form here: its zero is BF16 of [12, 1]; it must be F32 of [12, 1]");
  EXPECT_EQ(why(1, PlaneOf("scale", "F64", {12, 1}, std::string(96, '1'))),
            "HQQ has no form here: its scale is F64; it must be F16, BF16 or F32");
  EXPECT_EQ(why(1, PlaneOf("scale", "BF16", {6, 1}, std::string(12, '1'))),
            "HQQ has no form here: its scale is BF16 of [6, 1]; it must be BF16 of [12, 1]");
  EXPECT_EQ(why(1, PlaneOf("scale_q", "U8", {12, 1}, std::string(12, '1'))),
            "HQQ has no form here: its scale is missing: scales that are quantized are not read" +
                closest);
  EXPECT_EQ(why(2, PlaneOf("zero", "F16", {12, 1}, std::string(24, '1'))),
            "HQQ has no form here: its zero is F16 of [12, 1]; it must be BF16 of [12, 1]");
  std::vector<WeightTensor> tensors = good;
  tensors.erase(tensors.begin() + 2);
  EXPECT_EQ(why_of(tensors), "HQQ has no form here: its zero is missing");
  EXPECT_EQ(why(5, Number("group_size", 8)),
            "HQQ has no form here: its W_q is U8 of [6, 64]; it must be U8 of [48, 8]");
}

TEST(HqqLayersTest, ABlockWhoseOffsetHasNoF32IsNamed) {
  Hqq layer(2, 64, 64);
  layer.scales[1] = std::ldexp(1.0F, -100);
  layer.zeros[1] = std::ldexp(1.0F, -60);
  const std::vector<WeightTensor> made = CombineLayers(layer.Tensors(), {});
  EXPECT_THAT(std::string(OperandOf(made.at(0)).status().message()),
              HasSubstr("the block of row 1, columns 0 to 63 has no form in int4-g64-f32-offset: "
                        "its offset, -"));
}

}  // namespace
}  // namespace gemmd::client
