#include "client/weights/layers/scaled_layers.h"

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/numbers/float_bits.h"
#include "base/numbers/quant/elements.h"
#include "base/numbers/quant/small_float.h"
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

std::uint8_t At(const std::string& bytes, std::uint64_t index) {
  return static_cast<std::uint8_t>(bytes[index]);
}

const std::string kNansOfE4M3 = "\x7f\xff";

// Powers of two, some below zero, which every type of scales has; as numbers and as their bytes.
struct Scales {
  std::vector<double> values;
  std::string f32;
  std::string bf16;
  std::string e8m0;
};
Scales MakeScales(std::uint64_t count, std::uint32_t seed, bool may_be_negative = true) {
  std::mt19937 random(seed);
  Scales scales;
  for (std::uint64_t i = 0; i < count; ++i) {
    const int exponent = static_cast<int>(random() % 20) - 10;
    const bool is_negative = may_be_negative && random() % 3 == 0;
    scales.values.push_back(std::ldexp(is_negative ? -1.0 : 1.0, exponent));
    const auto bits =
        static_cast<std::uint32_t>(exponent + 127) << 23 | (is_negative ? 1U << 31 : 0);
    scales.f32 += Little(bits, 4);
    scales.bf16 += Little(bits >> 16, 2);
    scales.e8m0 += static_cast<char>(exponent + 127);
  }
  return scales;
}

WeightTensor Made(const std::vector<WeightTensor>& tensors, const LayerConfig& config = {}) {
  const std::vector<WeightTensor> made = CombineLayers(tensors, config);
  EXPECT_EQ(made.size(), 1U);
  return made.at(0);
}

std::string Why(const std::vector<WeightTensor>& tensors, const LayerConfig& config = {}) {
  const WeightTensor made = Made(tensors, config);
  const auto form = FormOf(made);
  return std::string(form.ok() ? OperandOf(made).status().message() : form.status().message());
}

TEST(ScaledLayersTest, Fp8HasScalesOfBlocks) {
  constexpr std::uint64_t kN = 130;
  constexpr std::uint64_t kK = 272;
  const std::string codes = RandomBytes(kN * kK, 1, kNansOfE4M3);
  const auto code = [&](std::uint64_t n, std::uint64_t k) {
    return DecodeElement(DataType::kFp8E4M3, At(codes, n * kK + k));
  };
  struct Case {
    Shape scales;
    BlockShape block;  // 0: all
    std::string format;
    bool is_said;  // by the config
  };
  for (const Case& each :
       {Case{{2, 3}, {128, 128}, "fp8-e4m3-128x128", false},
        Case{{}, {0, 0}, "fp8-e4m3-tensor", false}, Case{{1}, {0, 0}, "fp8-e4m3-tensor", false},
        Case{{1, 1}, {0, 0}, "fp8-e4m3-tensor", false}, Case{{kN}, {1, 0}, "fp8-e4m3-row", false},
        Case{{kN, 1}, {1, 0}, "fp8-e4m3-row", false},
        Case{{1, 2}, {256, 256}, "fp8-e4m3-128x128", true},
        Case{{3, 3}, {64, 128}, "fp8-e4m3-1x128", true},
        Case{{kN, 3}, {1, 128}, "fp8-e4m3-1x128", true}}) {
    std::uint64_t count = 1;
    for (const std::uint64_t size : each.scales) count *= size;
    const Scales scales = MakeScales(count, 2);
    LayerConfig config;
    if (each.is_said) config.blocks = {{32, 32}, each.block};
    const std::uint64_t columns = each.scales.size() == 2 ? each.scales[1] : 1;
    const Value value = [&](std::uint64_t n, std::uint64_t k) {
      const std::uint64_t line = each.block.lines == 0 ? 0 : n / each.block.lines;
      const std::uint64_t group = each.block.k == 0 ? 0 : k / each.block.k;
      return code(n, k) * scales.values[line * columns + group];
    };
    for (const char* suffix : {"_scale", "_scale_inv"}) {
      for (const auto& [type, bytes] :
           {std::pair<std::string, std::string>{"F32", scales.f32}, {"BF16", scales.bf16}}) {
        const WeightTensor made =
            Made({Tensor("l.weight", "F8_E4M3", {kN, kK}, codes),
                  Tensor(absl::StrCat("l.weight", suffix), type, each.scales, bytes)},
                 config);
        EXPECT_EQ(made.name, "l.weight");
        EXPECT_EQ(made.type, "F8_E4M3*" + type);
        EXPECT_EQ(FileBytes(made), codes.size() + bytes.size());
        ExpectMatrix(made, each.format, value);
      }
    }
  }
}

TEST(ScaledLayersTest, CodesThatNeedNoChangeAreNotCopied) {
  const Bytes codes(RandomBytes(128 * 128, 1, kNansOfE4M3));
  WeightTensor weight = Tensor("w", "F8_E4M3", {128, 128}, "");
  weight.bytes = codes;
  for (const bool is_negative : {false, true}) {
    const WeightTensor made =
        Made({weight, Tensor("w_scale_inv", "F32", {1, 1},
                             Little(is_negative ? 0xbf800000 : 0x3f800000, 4))});
    const auto operand = OperandOf(made);
    ASSERT_TRUE(operand.ok()) << operand.status();
    const auto& array = std::get<QuantizedArray>(*operand);
    EXPECT_EQ(array.codes.view().data(), codes.view().data());
  }
}

TEST(ScaledLayersTest, ScalesMayBePowersOfTwoAsBytes) {
  const std::string codes = RandomBytes(6 * 64, 1, kNansOfE4M3);
  const Scales scales = MakeScales(12, 3, false);
  const Value value = [&](std::uint64_t n, std::uint64_t k) {
    return DecodeElement(DataType::kFp8E4M3, At(codes, n * 64 + k)) * scales.values[n * 2 + k / 32];
  };
  ExpectMatrix(
      Made({Tensor("w", "F8_E4M3", {6, 64}, codes), Tensor("w_scale", "U8", {6, 2}, scales.e8m0)}),
      "mxfp8-e4m3", value);
  // As E8M0, DeepSeek's blocks too.
  ExpectMatrix(Made({Tensor("w", "F8_E4M3", {6, 64}, codes),
                     Tensor("w_scale", "F8_E8M0", {6, 2}, scales.e8m0)}),
               "mxfp8-e4m3", value);
  ExpectMatrix(Made({Tensor("w", "F8_E4M3", {6, 64}, codes),
                     Tensor("w_scale_inv", "F8_E8M0", {1, 1}, scales.e8m0.substr(0, 1))}),
               "fp8-e4m3-tensor", [&](std::uint64_t n, std::uint64_t k) {
                 return DecodeElement(DataType::kFp8E4M3, At(codes, n * 64 + k)) * scales.values[0];
               });
}

TEST(ScaledLayersTest, IntegersOfEightBitsHaveScalesAndZeroPoints) {
  const std::string codes = RandomBytes(6 * 96, 1, "\x80");
  for (const std::uint64_t groups : {1, 3}) {
    const Scales scales = MakeScales(6 * groups, 4);
    const std::string zeros = RandomBytes(6 * groups, 5);
    const auto number = [](const std::string& bytes, std::uint64_t i) {
      return static_cast<int>(static_cast<std::int8_t>(bytes[i]));
    };
    const auto scale = [&](std::uint64_t n, std::uint64_t k) {
      return scales.values[n * groups + k / (96 / groups)];
    };
    const WeightTensor weight = Tensor("w", "I8", {6, 96}, codes);
    const WeightTensor scale_tensor = Tensor("w_scale", "F32", {6, groups}, scales.f32);
    ExpectMatrix(
        Made({weight, scale_tensor}), groups == 1 ? "int8-row" : "int8-g32",
        [&](std::uint64_t n, std::uint64_t k) { return number(codes, n * 96 + k) * scale(n, k); });
    ExpectMatrix(Made({weight, scale_tensor, Tensor("w_zero_point", "I8", {6, groups}, zeros)}),
                 groups == 1 ? "int8-row-zp" : "int8-g32-zp",
                 [&](std::uint64_t n, std::uint64_t k) {
                   const std::uint64_t place = n * groups + k / (96 / groups);
                   return (number(codes, n * 96 + k) - number(zeros, place)) * scale(n, k);
                 });
  }
  // 128 is no code, and a value by a scale below zero.
  ExpectMatrix(Made({Tensor("w", "I8", {1, 2}, "\x01\x80"),
                     Tensor("w_scale", "F32", {1, 1}, Little(0xbf800000, 4))}),
               "int8-tensor", [](std::uint64_t, std::uint64_t k) { return k == 0 ? -1.0 : 128.0; });
}

// The code of four bits of an element, of which two are in a byte along K.
std::uint32_t Nibble(const std::string& bytes, std::uint64_t k_size, std::uint64_t n,
                     std::uint64_t k) {
  const std::uint64_t index = n * k_size + k;
  return static_cast<std::uint32_t>(At(bytes, index / 2)) >> (index % 2 * 4) & 15;
}

TEST(ScaledLayersTest, Nvfp4HasAScaleOfAllThatMultipliesOrDivides) {
  const std::string codes = RandomBytes(6 * 32, 1);
  const std::string scales = RandomBytes(6 * 4, 2, kNansOfE4M3);
  const auto value_times = [&](double overall) {
    return Value([&codes, &scales, overall](std::uint64_t n, std::uint64_t k) {
      return DecodeElement(DataType::kFp4E2M1, Nibble(codes, 64, n, k)) *
             DecodeElement(DataType::kFp8E4M3, At(scales, n * 4 + k / 16)) * overall;
    });
  };
  const WeightTensor scale = Tensor("l.weight_scale", "F8_E4M3", {6, 4}, scales);
  const std::string eighth = Little(0x3e000000, 4);
  ExpectMatrix(Made({Tensor("l.weight", "U8", {6, 32}, codes), scale,
                     Tensor("l.weight_scale_2", "F32", {}, eighth)}),
               "nvfp4", value_times(0.125));
  ExpectMatrix(Made({Tensor("l.weight_packed", "U8", {6, 32}, codes), scale,
                     Tensor("l.weight_global_scale", "F32", {1}, eighth)}),
               "nvfp4", value_times(8));
  ExpectMatrix(Made({Tensor("l.weight", "F4", {6, 64}, codes), scale}), "nvfp4", value_times(1));
  ExpectMatrix(Made({Tensor("l.weight_packed", "U8", {6, 32}, codes), scale,
                     Tensor("l.weight_global_scale", "F32", {1}, Little(0xbf800000, 4))}),
               "nvfp4", value_times(-1));
  const auto why = [&](const std::string& bits) {
    return Why({Tensor("l.weight_packed", "U8", {6, 32}, codes), scale,
                Tensor("l.weight_global_scale", "F32", {1}, bits)});
  };
  EXPECT_THAT(why(Little(0, 4)), HasSubstr("its overall scale is 1 / 0; it must be finite"));
  EXPECT_THAT(why(Little(0x7f800000, 4)), HasSubstr("its overall scale is 1 / inf"));
}

TEST(ScaledLayersTest, Mxfp4IsReadUnderTheNamesOfEach) {
  const std::string codes = RandomBytes(6 * 32, 1);
  const Scales scales = MakeScales(12, 3, false);
  const Value value = [&](std::uint64_t n, std::uint64_t k) {
    return DecodeElement(DataType::kFp4E2M1, Nibble(codes, 64, n, k)) *
           scales.values[n * 2 + k / 32];
  };
  for (const char* name : {"l.weight", "l.weight_packed"}) {
    ExpectMatrix(Made({Tensor(name, "U8", {6, 32}, codes),
                       Tensor("l.weight_scale", "U8", {6, 2}, scales.e8m0)}),
                 "mxfp4", value);
  }
  const WeightTensor made = Made({Tensor("e.up_blocks", "U8", {6, 2, 16}, codes),
                                  Tensor("e.up_scales", "U8", {6, 2}, scales.e8m0)});
  EXPECT_EQ(made.name, "e.up");
  ExpectMatrix(made, "mxfp4", value);
}

TEST(ScaledLayersTest, TheByte255IsZeroWhereAllCodesAre) {
  std::string codes(32, '\x80');
  const auto tensors = [&] {
    return std::vector<WeightTensor>{Tensor("w_packed", "U8", {2, 16}, codes),
                                     Tensor("w_scale", "U8", {2, 1}, "\x7f\xff")};
  };
  ExpectMatrix(Made(tensors()), "mxfp4", [](std::uint64_t, std::uint64_t) { return 0; });
  codes[31] = 1;
  EXPECT_EQ(Why(tensors()),
            "the block of row 1, columns 0 to 31 has no form in mxfp4: its scale is nan; it must "
            "be finite");
}

TEST(ScaledLayersTest, Int4OfModelOptHasTwoRowsInAByte) {
  const std::string codes = RandomBytes(3 * 64, 1, "\x88");
  const Scales scales = MakeScales(6 * 2, 3, false);
  ExpectMatrix(
      Made({Tensor("w", "U8", {3, 64}, codes), Tensor("w_scale", "F32", {6, 2}, scales.f32)}),
      "int4-g32-f32", [&](std::uint64_t n, std::uint64_t k) {
        const std::uint32_t code = At(codes, n / 2 * 64 + k) >> (n % 2 * 4) & 15U;
        return DecodeElement(DataType::kInt4, code) * scales.values[n * 2 + k / 32];
      });
  ExpectMatrix(
      Made({Tensor("w", "U8", {3, 64}, codes), Tensor("w_scale", "BF16", {6, 2}, scales.bf16)}),
      "int4-g32-bf16", [&](std::uint64_t n, std::uint64_t k) {
        const std::uint32_t code = At(codes, n / 2 * 64 + k) >> (n % 2 * 4) & 15U;
        return DecodeElement(DataType::kInt4, code) * scales.values[n * 2 + k / 32];
      });
}

// A layer of "pack-quantized", packed here one code at a time.
struct Packed {
  std::uint64_t n;
  std::uint64_t k;
  std::uint64_t group;
  int bits;
  std::vector<int> codes;  // offset to unsigned numbers
  std::vector<int> zeros;
  Scales scales;

  Packed(std::uint64_t lines, std::uint64_t columns, std::uint64_t group_size, int width)
      : n(lines), k(columns), group(group_size), bits(width) {
    std::mt19937 random(7);
    const std::uint32_t highest = (1U << bits) - 1;
    for (std::uint64_t i = 0; i < n * k; ++i) codes.push_back(static_cast<int>(random() & highest));
    for (std::uint64_t i = 0; i < n * groups(); ++i) {
      zeros.push_back(static_cast<int>(random() & highest));
    }
    scales = MakeScales(n * groups(), 8, false);
  }

  std::uint64_t groups() const { return (k + group - 1) / group; }

  // Numbers of `count` in words, one line after the other.
  std::string Words(const std::function<int(std::uint64_t)>& number, std::uint64_t count) const {
    std::string bytes((count * static_cast<std::uint64_t>(bits) + 31) / 32 * 4, '\0');
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t bit = i * static_cast<std::uint64_t>(bits);
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] | number(i) << (bit % 8));
    }
    return bytes;
  }

  std::vector<WeightTensor> Tensors(bool has_zeros) const {
    std::string packed;
    for (std::uint64_t line = 0; line < n; ++line) {
      packed += Words([&](std::uint64_t i) { return codes[line * k + i]; }, k);
    }
    std::vector<WeightTensor> tensors = {
        Tensor("l.weight_packed", "I32", {n, packed.size() / n / 4}, packed),
        Tensor("l.weight_scale", "BF16", {n, groups()}, scales.bf16),
        Tensor("l.weight_shape", "I64", {2}, Little(n, 8) + Little(k, 8))};
    if (!has_zeros) return tensors;
    // Along N, so that words of one group are apart.
    std::vector<std::string> columns;
    for (std::uint64_t i = 0; i < groups(); ++i) {
      columns.push_back(Words([&](std::uint64_t line) { return zeros[line * groups() + i]; }, n));
    }
    std::string words;
    for (std::uint64_t at = 0; at < columns[0].size(); at += 4) {
      for (const std::string& column : columns) words += column.substr(at, 4);
    }
    tensors.push_back(
        Tensor("l.weight_zero_point", "I32", {columns[0].size() / 4, groups()}, words));
    return tensors;
  }
};

TEST(ScaledLayersTest, PackQuantizedKeepsItsValues) {
  struct Case {
    std::uint64_t k;
    std::uint64_t group;
    int bits;
    std::string format;
    std::string format_with_zeros;
  };
  for (const Case& each : {Case{256, 128, 4, "int4-g128-bf16", "int4-g128-bf16-zp"},
                           Case{96, 32, 4, "int4-g32-bf16", "int4-g32-bf16-zp"},
                           Case{200, 200, 4, "int4-g128-bf16", "int4-g128-bf16-zp"},
                           Case{77, 77, 4, "int4-g128-bf16", "int4-g128-bf16-zp"},
                           Case{256, 64, 8, "int8-g64", "uint8-g64-zp"},
                           Case{77, 77, 8, "int8-row", "uint8-row-zp"}}) {
    const Packed packed(11, each.k, each.group, each.bits);
    LayerConfig config;
    config.blocks = {{1, each.group}};
    config.bits = {each.bits};
    const auto value = [&](std::uint64_t n, std::uint64_t k, int zero) {
      return (packed.codes[n * packed.k + k] - zero) *
             packed.scales.values[n * packed.groups() + k / packed.group];
    };
    ExpectMatrix(
        Made(packed.Tensors(false), config), each.format,
        [&](std::uint64_t n, std::uint64_t k) { return value(n, k, 1 << (each.bits - 1)); });
    ExpectMatrix(Made(packed.Tensors(true), config), each.format_with_zeros,
                 [&](std::uint64_t n, std::uint64_t k) {
                   return value(n, k, packed.zeros[n * packed.groups() + k / packed.group]);
                 });
  }
}

TEST(ScaledLayersTest, GroupsOfPackQuantizedMayLieApart) {
  const Packed packed(8, 64, 32, 4);
  std::vector<WeightTensor> tensors = packed.Tensors(false);
  std::string groups;
  for (std::uint32_t k = 0; k < 64; ++k) groups += Little(k % 2, 4);
  tensors.push_back(Tensor("l.weight_g_idx", "I32", {64}, groups));
  LayerConfig config;
  config.blocks = {{1, 32}};
  ExpectMatrix(Made(tensors, config), "int4-g32-bf16", [&](std::uint64_t n, std::uint64_t k) {
    return (packed.codes[n * 64 + k] - 8) * packed.scales.values[n * 2 + k % 2];
  });
}

TEST(ScaledLayersTest, PackQuantizedWithoutAFormSaysWhy) {
  const Packed packed(16, 64, 32, 4);
  std::vector<WeightTensor> tensors = packed.Tensors(true);
  LayerConfig config;
  config.blocks = {{1, 32}};
  EXPECT_EQ(Why(tensors, config), "");
  config.bits = {8};
  EXPECT_EQ(Why(tensors, config),
            "pack-quantized has no form here: its codes are 8 words for 64 elements, no number of "
            "bits each, and 4 and 8 are read; int8-g128 is closest: gemm quantize makes it of the "
            "f16 or f32 file");
  config.bits = {};
  tensors[2].bytes = Bytes(Little(16, 8) + Little(14, 8));
  EXPECT_THAT(Why(tensors, config), HasSubstr("its codes are 8 words for 14 elements, no number"));
  tensors[2].bytes = Bytes(Little(16, 8) + Little(85, 8));
  EXPECT_THAT(Why(tensors, config), HasSubstr("8 words for 85 elements, 3 bits each"));
  tensors[2].bytes = Bytes(Little(15, 8) + Little(64, 8));
  EXPECT_THAT(Why(tensors, config), HasSubstr("weight_shape does not say their N and K"));
  tensors[2].bytes = Bytes(Little(16, 8) + Little(std::uint64_t{1} << 63, 8));
  EXPECT_THAT(Why(tensors, config), HasSubstr("weight_shape does not say their N and K"));
  tensors = packed.Tensors(true);
  tensors[3].shape = {1, 4};
  EXPECT_THAT(Why(tensors, config),
              HasSubstr("its zero_point is I32 of [1, 4]; it must be I32 of [2, 2]"));
  tensors = packed.Tensors(false);
  std::string groups;
  for (std::uint32_t k = 0; k < 64; ++k) groups += Little(k == 5 ? 1 : k / 32, 4);
  tensors.push_back(Tensor("l.weight_g_idx", "I32", {64}, groups));
  EXPECT_THAT(Why(tensors, config),
              HasSubstr("its g_idx has the group 1 for k = 63 and 32 before"));
}

TEST(ScaledLayersTest, AStackHasScalesOfEachMatrix) {
  const std::string codes = RandomBytes(3 * 4 * 32, 1);
  const Scales scales = MakeScales(3 * 4 * 2, 3, false);
  const std::vector<WeightTensor> made =
      CombineLayers({Tensor("e.up_blocks", "U8", {3, 4, 2, 16}, codes),
                     Tensor("e.up_scales", "U8", {3, 4, 2}, scales.e8m0)},
                    {});
  ASSERT_EQ(made.size(), 1U);
  EXPECT_THAT(made[0].shape, ::testing::ElementsAre(3, 4, 64));
  const auto form = FormOf(made[0]);
  ASSERT_TRUE(form.ok()) << form.status();
  EXPECT_EQ(form->parts, 3U);
  EXPECT_EQ(form->size_bytes, 3U * 4 * (32 + 2));
  EXPECT_EQ(OperandOf(made[0]).status().message(),
            "it is a stack of 3 matrices, which go one by one: \"e.up\" and its index, [0] to [2]");
  for (std::uint64_t i = 0; i < 3; ++i) {
    const WeightTensor matrix = MatrixOf(made[0], i);
    EXPECT_EQ(matrix.name, absl::StrCat("e.up[", i, "]"));
    EXPECT_EQ(FileBytes(matrix), 4U * (32 + 2));
    ExpectMatrix(matrix, "mxfp4", [&](std::uint64_t n, std::uint64_t k) {
      return DecodeElement(DataType::kFp4E2M1, Nibble(codes, 64, i * 4 + n, k)) *
             scales.values[(i * 4 + n) * 2 + k / 32];
    });
  }
  // One scale for each matrix, and one for all.
  const std::string fp8 = RandomBytes(3 * 4 * 8, 1, kNansOfE4M3);
  const Scales each = MakeScales(3, 4);
  for (const Shape& shape : {Shape{3}, Shape{3, 1, 1}, Shape{1}}) {
    const WeightTensor stack =
        Made({Tensor("e.up", "F8_E4M3", {3, 4, 8}, fp8),
              Tensor("e.up_scale", "F32", shape, each.f32.substr(0, 4 * shape[0]))});
    for (std::uint64_t i = 0; i < 3; ++i) {
      ExpectMatrix(MatrixOf(stack, i), "fp8-e4m3-tensor", [&](std::uint64_t n, std::uint64_t k) {
        return DecodeElement(DataType::kFp8E4M3, At(fp8, (i * 4 + n) * 8 + k)) *
               each.values[shape[0] == 1 ? 0 : i];
      });
    }
  }
  EXPECT_THAT(
      Why({Tensor("e.up", "F8_E4M3", {3, 4, 8}, fp8),
           Tensor("e.up_scale", "F32", {2}, each.f32.substr(0, 8))}),
      HasSubstr("it is a stack of 3 matrices, and a tensor of its scales has another first"));
}

TEST(ScaledLayersTest, ComfyUiAndTorchaoHaveOtherNames) {
  const std::string codes = RandomBytes(4 * 8, 1, kNansOfE4M3);
  const Scales scales = MakeScales(4, 4);
  const WeightTensor comfy = Made({Tensor("l.weight", "F8_E4M3", {4, 8}, codes),
                                   Tensor("l.scale_weight", "F32", {1}, scales.f32.substr(0, 4))});
  EXPECT_EQ(comfy.name, "l.weight");
  ExpectMatrix(comfy, "fp8-e4m3-tensor", [&](std::uint64_t n, std::uint64_t k) {
    return DecodeElement(DataType::kFp8E4M3, At(codes, n * 8 + k)) * scales.values[0];
  });
  const WeightTensor torchao = Made({Tensor("0._weight_qdata", "F8_E4M3", {4, 8}, codes),
                                     Tensor("0._weight_scale", "F32", {4, 1}, scales.f32)});
  EXPECT_EQ(torchao.name, "0.weight");
  ExpectMatrix(torchao, "fp8-e4m3-row", [&](std::uint64_t n, std::uint64_t k) {
    return DecodeElement(DataType::kFp8E4M3, At(codes, n * 8 + k)) * scales.values[n];
  });
  EXPECT_THAT(Why({Tensor("0._weight_qdata", "U8", {4, 8}, codes),
                   Tensor("0._weight_scale", "F8_E4M3", {4, 1}, "aaaa")}),
              HasSubstr("torchao may hold such scales and codes in another order, and its "
                        "metadata, which says so, is missing"));
  const WeightTensor experts = Made({Tensor("0._up_qdata", "F8_E4M3", {4, 8}, codes),
                                     Tensor("0._up_scale", "F32", {4, 1}, scales.f32)});
  EXPECT_EQ(experts.name, "0.up");
  ExpectMatrix(experts, "fp8-e4m3-row", [&](std::uint64_t n, std::uint64_t k) {
    return DecodeElement(DataType::kFp8E4M3, At(codes, n * 8 + k)) * scales.values[n];
  });
}

TEST(ScaledLayersTest, CodesAreNotReadWithoutTheScalesBesideThem) {
  const std::string codes(64, '\1');
  const WeightTensor weight = Tensor("w", "F8_E4M3", {8, 8}, codes);
  const std::string floats(256, '\0');
  EXPECT_EQ(Why({weight, Tensor("w_scale", "F32", {3}, floats.substr(0, 12))}),
            "F8_E4M3*F32 has no form here: its scales are F32 of [3]; for [8, 8] they must be F32, "
            "F16, BF16 or F8_E8M0, one, one for each row, or one for each group of K or block that "
            "its config says");
  EXPECT_THAT(Why({weight, Tensor("w_scale", "F64", {1}, floats.substr(0, 8))}),
              HasSubstr("its scales are F64 of [1]"));
  EXPECT_THAT(Why({weight, Tensor("w_scale", "F32", {0, 8}, "")}),
              HasSubstr("its scales are F32 of [0, 8]"));
  EXPECT_THAT(Why({weight, Tensor("w_scale", "F32", {8, 4}, floats.substr(0, 128))}),
              HasSubstr("it has a scale of f32 for each 1 x 2 fp8_e4m3, and no form has that; "
                        "fp8-e4m3-128x128 is closest"));
  EXPECT_THAT(Why({weight, Tensor("w_scale", "F32", {1}, floats.substr(0, 4)),
                   Tensor("w_zero_point", "I8", {1}, "0")}),
              HasSubstr("its zero_point is I8 of [1]; zero points of I8 codes alone are read"));
  EXPECT_THAT(Why({weight, Tensor("w_scale", "F32", {1}, Little(0x7fc00000, 4))}),
              HasSubstr("no form in fp8-e4m3-tensor: its scale is nan; it must be finite"));
  EXPECT_THAT(Why({weight, Tensor("w_scale", "F32", {1}, floats.substr(0, 4)),
                   Tensor("w_scale_2", "F32", {2}, floats.substr(0, 8))}),
              HasSubstr("its scale of all is F32 of [2]; it must be one F32"));
  // Blocks that the config says in two ways.
  LayerConfig config;
  config.blocks = {{4, 4}, {8, 4}, {4, 5}};
  EXPECT_THAT(Why({weight, Tensor("w_scale", "F32", {2, 2}, floats.substr(0, 16))}, config),
              HasSubstr("its scales are F32 of [2, 2]"));
}

TEST(ScaledLayersTest, BytesOfQuantoHaveAScaleForEachRow) {
  const std::string floats("\0\0\0\x40\0\0\0\xbf", 8);  // 2 and -0.5
  const std::vector<WeightTensor> tensors =
      CombineLayers({Tensor("l.weight._data", "I8", {2, 3}, "\1\xff\3\4\x80\6"),
                     Tensor("l.weight._scale", "F32", {2, 1}, floats)},
                    {});
  ASSERT_EQ(tensors.size(), 1U);
  EXPECT_EQ(tensors[0].name, "l.weight");
  EXPECT_EQ(tensors[0].type, "I8*F32");
  const std::vector<double> expected = {2, -2, 6, -2, 64, -3};
  ExpectMatrix(tensors[0], "int8-row",
               [&expected](std::uint64_t n, std::uint64_t k) { return expected[n * 3 + k]; });
  // In the model's type as a rule, f16 or bf16; and fp8.
  const std::vector<WeightTensor> floats8 =
      CombineLayers({Tensor("l.weight._data", "F8_E4M3", {2, 1}, "\x38\xb8"),
                     Tensor("l.weight._scale", "BF16", {2, 1}, std::string("\0\x40\0\xbf", 4))},
                    {});
  ASSERT_EQ(floats8.size(), 1U);
  ExpectMatrix(floats8[0], "fp8-e4m3-row",
               [](std::uint64_t n, std::uint64_t /*k*/) { return n == 0 ? 2 : 0.5; });
  // A scale for each column has no form.
  EXPECT_THAT(Why({Tensor("l.weight._data", "I8", {2, 3}, "012345"),
                   Tensor("l.weight._scale", "F32", {1, 3}, std::string(12, '0'))}),
              HasSubstr("its scales are F32 of [1, 3]; for [2, 3] they must be"));
}

// X.scale beside X.weight is of SDNQ, and of DeepSeek's own conversion.
TEST(ScaledLayersTest, ScalesBesideAWeightAreItsOwn) {
  const std::string codes("\1\2\3\x84\5\6\7\x80", 8);
  const auto find = [](const std::vector<WeightTensor>& tensors, const LayerConfig& config = {}) {
    for (WeightTensor& each : CombineLayers(tensors, config)) {
      if (each.name == "l.weight") return std::move(each);
    }
    return WeightTensor();
  };
  const std::vector<WeightTensor> rows = {
      Tensor("l.weight", "I8", {2, 4}, codes),
      Tensor("l.scale", "F32", {2, 1}, Little(BitsOf(0.5F), 4) + Little(BitsOf(0.25F), 4))};
  ExpectMatrix(find(rows), "int8-row", [&codes](std::uint64_t n, std::uint64_t k) {
    return (n == 0 ? 0.5 : 0.25) * static_cast<std::int8_t>(codes[n * 4 + k]);
  });
  EXPECT_THAT(std::string(FormOf(find({rows[0], Tensor("l.scale", "F8_E8M0", {2, 1}, "\x7f\x7f")}))
                              .status()
                              .message()),
              HasSubstr("each byte may hold two codes of E2M1"));
  std::vector<WeightTensor> offsets = rows;
  offsets[0].type = "U8";
  EXPECT_THAT(std::string(FormOf(find(offsets)).status().message()),
              HasSubstr("its zero_point is missing; codes of U8 with F32 of [2, 1] in .scale"));
  offsets.push_back(
      Tensor("l.zero_point", "F32", {2, 1}, Little(BitsOf(-1.0F), 4) + Little(BitsOf(3.0F), 4)));
  ExpectMatrix(find(offsets), "uint8-g128-offset", [&codes](std::uint64_t n, std::uint64_t k) {
    return (n == 0 ? 0.5 : 0.25) * static_cast<std::uint8_t>(codes[n * 4 + k]) + (n == 0 ? -1 : 3);
  });
  std::vector<WeightTensor> sum = rows;
  sum.push_back(Tensor("l.svd_up", "F32", {2, 1}, "01234567"));
  EXPECT_THAT(std::string(FormOf(find(sum)).status().message()),
              HasSubstr("a product of svd_up and svd_down is added to it"));
  LayerConfig rotated;
  rotated.is_rotated = true;
  EXPECT_THAT(std::string(FormOf(find(rows, rotated)).status().message()),
              HasSubstr("its config has use_hadamard"));
}

TEST(ScaledLayersTest, CodesOfWhichTheRestIsNotReadAreRefused) {
  struct Case {
    std::string codes;
    std::string type;
    std::string beside;
    std::string why;
  };
  for (const Case& each :
       {Case{"l.weight", "I8", "l.weight.absmax", "its quant_state, which says which, is missing"},
        Case{"l.weight._data._data", "U8", "l.weight._shift", "their _scale is missing"},
        Case{"l.weight._data", "U8", "l.weight._scale", "of quanto, are in ._scale"}}) {
    EXPECT_TRUE(IsNameOfScales(each.beside));
    const std::vector<WeightTensor> tensors =
        CombineLayers({Tensor(each.codes, each.type, {2, 2}, "0123"),
                       Tensor(each.beside, "F32", {2}, "01234567")},
                      {});
    ASSERT_EQ(tensors.size(), 2U);
    for (const WeightTensor& tensor : tensors) {
      if (tensor.name != each.codes) continue;
      EXPECT_THAT(std::string(FormOf(tensor).status().message()), HasSubstr(each.why));
      EXPECT_EQ(FileBytes(tensor), 4U);
    }
  }
}

TEST(ScaledLayersTest, OtherTensorsStayAsTheyAre) {
  const auto names = [](const std::vector<WeightTensor>& tensors) {
    std::vector<std::string> found;
    for (const WeightTensor& each : CombineLayers(tensors, {})) {
      found.push_back(absl::StrCat(each.name, ":", each.type));
    }
    return absl::StrJoin(found, " ");
  };
  const std::string bytes(64, '\0');
  EXPECT_EQ(names({Tensor("k.k_scale", "F32", {1}, "0123"), Tensor("w", "BF16", {1, 1}, "01"),
                   Tensor("w_scale", "F32", {1}, "0123")}),
            "k.k_scale:F32 w:BF16 w_scale:F32");
  EXPECT_EQ(names({Tensor("w", "U8", {2, 2}, "0123"), Tensor("w_packed", "U8", {2, 2}, "0123"),
                   Tensor("v_scale", "F32", {1}, "0123")}),
            "v_scale:F32 w:U8 w_packed:U8");
  EXPECT_EQ(names({Tensor("w_blocks", "U8", {2, 1, 8}, bytes.substr(0, 16)),
                   Tensor("w_scales", "U8", {2, 1}, "01")}),
            "w_blocks:U8 w_scales:U8");
}

}  // namespace
}  // namespace gemmd::client
