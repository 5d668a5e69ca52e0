#include "client/weights/packed_layers.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/weights/weight_form.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/testing/weight_bytes.h"

namespace gemmd::client {
namespace {

using ::gemmd::testing::Little;
using ::testing::HasSubstr;

std::string Config(const std::string& fields) {
  return R"({"model_type":"llama","quantization_config":{)" + fields + "}}";
}

PackingConfig Parsed(const std::string& fields) {
  const auto config = ParsePackingConfig(Config(fields));
  EXPECT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->has_value()) << fields;
  return config->value_or(PackingConfig());
}

TEST(PackingConfigTest, SaysHowLayersArePacked) {
  const PackingConfig gptq = Parsed(
      R"("quant_method":"gptq","bits":4,"group_size":64,"dynamic":{"a":{"b":[1]}},"sym":true)");
  EXPECT_EQ(gptq.packing, Packing::kGptq);
  EXPECT_EQ(gptq.group_size, 64U);
  EXPECT_EQ(gptq.why, "");
  const PackingConfig second =
      Parsed(R"("quant_method":"gptq","checkpoint_format":"gptq_v2","bits":4,"group_size":-1)");
  EXPECT_EQ(second.packing, Packing::kGptqV2);
  EXPECT_EQ(second.group_size, 0U);
  const PackingConfig awq =
      Parsed(R"("quant_method":"awq","version":"GEMM","format":"gemm","bits":4,"group_size":128)");
  EXPECT_EQ(awq.packing, Packing::kAwq);
  EXPECT_EQ(awq.group_size, 128U);
  EXPECT_EQ(Parsed(R"("quant_method":"awq","version":"gemv","bits":4,"group_size":128)").why,
            "it is packed as \"gemv\", and gemm is read");
  EXPECT_EQ(Parsed(R"("method":"gptq","format":"marlin","bits":4,"group_size":128)").why,
            "it is packed as \"marlin\", and gptq and gptq_v2 are read");
}

TEST(PackingConfigTest, OtherMethodsAreLeftAlone) {
  for (const std::string& text : {std::string("{}"), Config(""), Config(R"("quant_method":"fp8")"),
                                  std::string(R"({"quantization_config":null})"),
                                  std::string(R"({"quantization_config":"gptq"})")}) {
    const auto config = ParsePackingConfig(text);
    ASSERT_TRUE(config.ok()) << text << config.status();
    EXPECT_FALSE(config->has_value()) << text;
  }
}

TEST(PackingConfigTest, WrongFieldsAreNamed) {
  const std::string gptq = R"("quant_method":"gptq",)";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "is no JSON object"},
      {"[1]", "is no JSON object"},
      {std::string(100000, '['), "is no JSON object"},
      {"{\"a\":" + std::string(100000, '['), "is no JSON object"},
      {R"({"a":1,"a":2})", "has \"a\" twice"},
      {Config(R"("bits":4,"bits":8)"), "has \"bits\" twice"},
      {Config(R"("quant_method":7)"), "quant_method is \"7\"; it must be a text"},
      {Config(R"("quant_method":"gptq","method":"awq")"),
       "method is \"awq\"; it must be \"gptq\", as quant_method is"},
      {Config(gptq + R"("group_size":128)"), "bits is missing; it must be a whole number from 2"},
      {Config(gptq + R"("bits":9,"group_size":128)"), "bits is \"9\"; it must be a whole number"},
      {Config(gptq + R"("bits":4.0,"group_size":128)"), "bits is \"4.0\""},
      {Config(gptq + R"("bits":4)"), "group_size is missing"},
      {Config(gptq + R"("bits":4,"group_size":0)"), "group_size is 0; it must be -1, for all of K"},
      {Config(gptq + R"("bits":4,"group_size":-2)"), "group_size is \"-2\""},
      {Config(gptq + R"("bits":4,"group_size":9223372036854775808)"),
       "group_size is \"9223372036854775808\"; it must be a whole number from -1 to 2147483647"},
      {Config(gptq + R"("bits":4,"group_size":[128])"), "group_size is "},
  };
  for (const auto& [text, why] : cases) {
    const auto config = ParsePackingConfig(text);
    ASSERT_FALSE(config.ok()) << text.substr(0, 100);
    EXPECT_THAT(std::string(config.status().message()), HasSubstr(why));
    EXPECT_LT(config.status().message().size(), 600U);
  }
}

// A layer as its numbers, which Pack() packs as the formats say, one code at a time.
struct Layer {
  std::uint64_t n = 0;
  std::uint64_t k = 0;
  std::uint64_t group = 0;
  std::vector<int> codes;     // (k, n), n running fastest
  std::vector<int> zeros;     // (group, n)
  std::vector<float> scales;  // likewise, exact in f16
};

std::uint16_t HalfOf(float value) {  // of powers of two
  int exponent = 0;
  const float fraction = std::frexp(std::abs(value), &exponent);
  EXPECT_EQ(fraction, 0.5F);
  return static_cast<std::uint16_t>((value < 0 ? 0x8000 : 0) | (exponent + 14) << 10);
}

Layer RandomLayer(std::uint64_t n, std::uint64_t k, std::uint64_t group, std::uint32_t seed) {
  std::mt19937 random(seed);
  const std::uint64_t groups = (k + group - 1) / group;
  Layer layer{n, k, group, {}, {}, {}};
  for (std::uint64_t i = 0; i < n * k; ++i) layer.codes.push_back(static_cast<int>(random() % 16));
  for (std::uint64_t i = 0; i < groups * n; ++i) {
    layer.zeros.push_back(1 + static_cast<int>(random() % 15));
    const float magnitude = std::ldexp(1.0F, static_cast<int>(random() % 9) - 6);
    layer.scales.push_back(random() % 4 == 0 ? -magnitude : magnitude);
  }
  return layer;
}

// Words of eight codes each, in that order, of count codes with that step.
std::string Words(const std::vector<int>& codes, std::uint64_t rows, std::uint64_t columns,
                  bool along_rows, const std::array<int, 8>& order, int less) {
  std::string bytes;
  const std::uint64_t across = along_rows ? rows / 8 : rows;
  const std::uint64_t down = along_rows ? columns : columns / 8;
  for (std::uint64_t i = 0; i < across; ++i) {
    for (std::uint64_t j = 0; j < down; ++j) {
      std::uint32_t word = 0;
      for (std::size_t at = 0; at < 8; ++at) {
        const auto place = static_cast<std::uint64_t>(order.at(at));
        const std::uint64_t row = along_rows ? 8 * i + place : i;
        const std::uint64_t column = along_rows ? j : 8 * j + place;
        word |= static_cast<std::uint32_t>(codes[row * columns + column] - less) << (4 * at);
      }
      bytes += Little(word, 4);
    }
  }
  return bytes;
}

constexpr std::array<int, 8> kInOrder = {0, 1, 2, 3, 4, 5, 6, 7};
constexpr std::array<int, 8> kOfAwq = {0, 2, 4, 6, 1, 3, 5, 7};

std::vector<WeightTensor> Pack(const Layer& layer, Packing packing, const char* scale = "F16") {
  const bool is_awq = packing == Packing::kAwq;
  const std::uint64_t groups = layer.zeros.size() / layer.n;
  std::string scales;
  for (const float each : layer.scales) scales += Little(HalfOf(each), 2);
  const auto tensor = [](const std::string& name, const char* type,
                         std::vector<std::uint64_t> shape, std::string bytes) {
    return WeightTensor{name, false, type, std::move(shape), Bytes(std::move(bytes)), nullptr};
  };
  return {
      tensor("l.qweight", "I32",
             is_awq ? std::vector<std::uint64_t>{layer.k, layer.n / 8}
                    : std::vector<std::uint64_t>{layer.k / 8, layer.n},
             Words(layer.codes, layer.k, layer.n, !is_awq, is_awq ? kOfAwq : kInOrder, 0)),
      tensor("l.qzeros", "I32", {groups, layer.n / 8},
             Words(layer.zeros, groups, layer.n, false, is_awq ? kOfAwq : kInOrder,
                   packing == Packing::kGptq ? 1 : 0)),
      tensor("l.scales", scale, {groups, layer.n}, scales),
  };
}

PackingConfig ConfigOf(Packing packing, std::uint64_t group_size) {
  PackingConfig config;
  config.packing = packing;
  config.group_size = group_size;
  return config;
}

TEST(PackedLayersTest, EveryElementKeepsItsValue) {
  struct Case {
    std::uint64_t k;
    std::uint64_t group;
    std::uint64_t said;  // in the config; 0: all of K
    std::string format;
  };
  for (const Packing packing : {Packing::kGptq, Packing::kGptqV2, Packing::kAwq}) {
    for (const Case& each :
         {Case{512, 128, 128, "int4-g128-f16-zp"}, Case{192, 64, 64, "int4-g64-f16-zp"},
          Case{96, 32, 32, "int4-g32-f16-zp"}, Case{512, 256, 256, "int4-g128-f16-zp"},
          Case{160, 128, 128, "int4-g128-f16-zp"}, Case{328, 328, 0, "int4-g128-f16-zp"},
          Case{48, 48, 1000, "int4-g128-f16-zp"}}) {
      const Layer layer = RandomLayer(72, each.k, each.group, 5);
      const std::vector<WeightTensor> tensors =
          CombineLayers(Pack(layer, packing), ConfigOf(packing, each.said));
      ASSERT_EQ(tensors.size(), 1U);
      EXPECT_EQ(tensors[0].name, "l.weight");
      EXPECT_THAT(tensors[0].shape, ::testing::ElementsAre(layer.n, layer.k));
      EXPECT_EQ(FileBytes(tensors[0]), layer.n * layer.k / 2 + layer.zeros.size() * 5 / 2);
      const auto form = FormOf(tensors[0]);
      ASSERT_TRUE(form.ok()) << form.status();
      EXPECT_EQ(form->name, each.format);
      const auto operand = OperandOf(tensors[0]);
      ASSERT_TRUE(operand.ok()) << operand.status();
      const auto& array = std::get<QuantizedArray>(*operand);
      ASSERT_TRUE(ToOperand(array, Side::kA).ok());
      const QuantizedView view = array.view();
      for (std::uint64_t n = 0; n < layer.n; ++n) {
        for (std::uint64_t k = 0; k < layer.k; ++k) {
          const std::uint64_t at = k / layer.group * layer.n + n;
          const double expected =
              (layer.codes[k * layer.n + n] - layer.zeros[at]) * double{layer.scales[at]};
          ASSERT_EQ(view.value(static_cast<std::int64_t>(n), static_cast<std::int64_t>(k)),
                    expected)
              << each.format << " " << n << ", " << k;
        }
      }
    }
  }
}

TEST(PackedLayersTest, ScalesMayBeOfBf16) {
  const Layer layer = RandomLayer(8, 64, 64, 5);
  std::vector<WeightTensor> tensors = Pack(layer, Packing::kAwq, "BF16");
  tensors = CombineLayers(std::move(tensors), ConfigOf(Packing::kAwq, 64));
  const auto operand = OperandOf(tensors[0]);
  ASSERT_TRUE(operand.ok()) << operand.status();
  const auto& array = std::get<QuantizedArray>(*operand);
  EXPECT_EQ(array.format_name, "int4-g64-bf16-zp");
}

// Why such a layer has no form, which the list of tensors says.
std::string Why(std::vector<WeightTensor> tensors, const PackingConfig& config) {
  tensors = CombineLayers(std::move(tensors), config);
  EXPECT_EQ(tensors.size(), 1U);
  return std::string(FormOf(tensors[0]).status().message());
}

TEST(PackedLayersTest, ALayerWithoutAFormSaysWhy) {
  const Layer layer = RandomLayer(16, 128, 64, 5);
  const auto pack = [&](std::size_t at, const char* type, std::vector<std::uint64_t> shape) {
    std::vector<WeightTensor> tensors = Pack(layer, Packing::kGptq);
    tensors[at].type = type;
    tensors[at].shape = std::move(shape);
    return tensors;
  };
  const PackingConfig config = ConfigOf(Packing::kGptq, 64);
  EXPECT_EQ(Why(pack(0, "I64", {16, 16}), config),
            "GPTQ has no form here: its qweight is I64 of [16, 16]; it must be I32 of [16, 16]");
  EXPECT_THAT(Why(pack(1, "I32", {3, 2}), config),
              HasSubstr("its qzeros is I32 of [3, 2]; it must be I32 of [2, 2]"));
  EXPECT_THAT(Why(pack(2, "F32", {2, 16}), config),
              HasSubstr("its scales is F32 of [2, 16]; it must be F16 of [2, 16]"));
  EXPECT_THAT(Why(Pack(layer, Packing::kGptq), ConfigOf(Packing::kGptq, 32)),
              HasSubstr("its qzeros is I32 of [2, 2]; it must be I32 of [4, 2]"));
  EXPECT_THAT(Why(Pack(RandomLayer(16, 96, 48, 5), Packing::kGptq), ConfigOf(Packing::kGptq, 48)),
              HasSubstr("its groups are of 48, and forms have blocks of 32, 64 and 128"));
  PackingConfig eight = config;
  eight.bits = 8;
  EXPECT_THAT(Why(Pack(layer, Packing::kGptq), eight),
              HasSubstr("its codes have 8 bits, and 4 are read; uint8-g128-zp is closest"));
  PackingConfig other = config;
  other.why = "it is packed as \"marlin\"";
  EXPECT_THAT(Why(Pack(layer, Packing::kGptq), other), HasSubstr("it is packed as \"marlin\""));
}

TEST(PackedLayersTest, GroupsMustBeRunsOfK) {
  const Layer layer = RandomLayer(16, 128, 64, 5);
  const auto with_groups = [&](int changed, std::uint32_t group) {
    std::vector<WeightTensor> tensors = Pack(layer, Packing::kGptq);
    std::string bytes;
    for (int k = 0; k < 128; ++k) {
      bytes += Little(k == changed ? group : static_cast<std::uint32_t>(k / 64), 4);
    }
    tensors.push_back({"l.g_idx", false, "I32", {128}, Bytes(bytes), nullptr});
    return tensors;
  };
  const PackingConfig config = ConfigOf(Packing::kGptq, 64);
  const auto good = CombineLayers(with_groups(-1, 0), config);
  ASSERT_EQ(good.size(), 1U);
  EXPECT_TRUE(FormOf(good[0]).ok()) << FormOf(good[0]).status();
  EXPECT_THAT(Why(with_groups(127, 0), config),
              HasSubstr("its g_idx has the group 0 for k = 127, not 1: its groups (act-order)"));
  EXPECT_THAT(Why(with_groups(0, ~0U), config), HasSubstr("has the group -1 for k = 0, not 0"));
  std::vector<WeightTensor> short_one = with_groups(-1, 0);
  short_one[3].shape = {127};
  EXPECT_THAT(Why(short_one, config), HasSubstr("its g_idx is I32 of [127]; it must be I32 of"));
}

TEST(PackedLayersTest, ABlockWithoutAFormIsNamed) {
  Layer layer = RandomLayer(16, 128, 64, 5);
  const auto why = [&](Packing packing) {
    const auto tensors = CombineLayers(Pack(layer, packing), ConfigOf(packing, 64));
    return std::string(OperandOf(tensors[0]).status().message());
  };
  layer.zeros[16 + 3] = 16;
  EXPECT_EQ(why(Packing::kGptq),
            "the group 1 of row 3 has no form in int4-g64-f16-zp: its zero point less 1 is 15, "
            "which programs read as 16 or carry over");
  layer.zeros[16 + 3] = 0;
  EXPECT_EQ(why(Packing::kGptqV2), "");
  std::vector<WeightTensor> tensors = Pack(layer, Packing::kAwq);
  std::string scales(tensors[2].bytes.view());
  scales[2 * 5 + 1] = 0x7c;
  tensors[2].bytes = Bytes(scales);
  tensors = CombineLayers(std::move(tensors), ConfigOf(Packing::kAwq, 64));
  EXPECT_THAT(std::string(OperandOf(tensors[0]).status().message()),
              HasSubstr("the group 0 of row 5 has no form in int4-g64-f16-zp: its scale is inf"));
}

TEST(PackedLayersTest, TensorsThatMakeNoLayerStay) {
  const Layer layer = RandomLayer(16, 128, 64, 5);
  const PackingConfig config = ConfigOf(Packing::kGptq, 64);
  std::vector<WeightTensor> tensors = Pack(layer, Packing::kGptq);
  tensors.push_back({"l.weight", false, "F32", {1, 1}, Bytes(std::string(4, 'x')), nullptr});
  EXPECT_EQ(CombineLayers(tensors, config).size(), 4U);
  tensors = Pack(layer, Packing::kGptq);
  tensors.pop_back();
  EXPECT_EQ(CombineLayers(tensors, config).size(), 2U);
  tensors = Pack(layer, Packing::kGptq);
  tensors[0].shape = {1, 1, 1};
  EXPECT_EQ(CombineLayers(tensors, config).size(), 3U);
  tensors[0].shape = {0, std::uint64_t{1} << 62};
  EXPECT_EQ(CombineLayers(tensors, config).size(), 3U);
}

}  // namespace
}  // namespace gemmd::client
