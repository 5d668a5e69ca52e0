#include "client/weights/layers/layer_config.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gemmd::client {
namespace {

using ::testing::HasSubstr;

std::string Config(const std::string& fields) {
  return R"({"model_type":"llama","quantization_config":{)" + fields + "}}";
}

PackingConfig Parsed(const std::string& fields) {
  const auto config = ParseLayerConfig(Config(fields), kConfigFiles[0]);
  EXPECT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->has_value()) << fields;
  return config->value_or(LayerConfig()).packing.value_or(PackingConfig());
}

TEST(LayerConfigTest, SaysHowLayersArePacked) {
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
  EXPECT_EQ(Parsed(R"("quant_method":"awq","version":"GEMV","bits":4,"group_size":128)").packing,
            Packing::kAwqGemv);
  EXPECT_EQ(
      Parsed(R"("quant_method":"awq","version":"GEMV_fast","bits":4,"group_size":128)").packing,
      Packing::kAwqGemvFast);
  EXPECT_EQ(Parsed(R"("quant_method":"awq","version":"exllama","bits":4,"group_size":128)").why,
            "it is packed as \"exllama\", and gemm, gemv and gemv_fast are read");
  EXPECT_EQ(Parsed(R"("method":"gptq","format":"marlin","bits":4,"group_size":128)").why,
            "it is packed as \"marlin\", and gptq, gptq_v2 and gptq_p are read");
  // Codes in planes of bits; of 2, 4 and 8 bits there is one.
  for (const int bits : {2, 4, 8}) {
    const PackingConfig planar = Parsed(
        absl::StrCat(R"("quant_method":"gptq","format":"gptq_p","group_size":64,"bits":)", bits));
    EXPECT_EQ(planar.packing, Packing::kGptqV2);
    EXPECT_EQ(planar.why, "");
  }
  for (const int bits : {3, 5, 6, 7}) {
    const PackingConfig planar = Parsed(
        absl::StrCat(R"("quant_method":"gptq","format":"gptq_p","group_size":64,"bits":)", bits));
    EXPECT_EQ(planar.packing, Packing::kGptqPlanar);
    EXPECT_EQ(planar.why, "");
  }
}

TEST(LayerConfigTest, SdnqSaysWhetherKIsRotated) {
  for (const auto& [said, is_rotated] : {std::pair("", false),
                                         {",\"use_hadamard\":false", false},
                                         {",\"use_hadamard\":true", true}}) {
    const std::string text = absl::StrCat("{\"quant_method\":\"sdnq\"", said, "}");
    const auto config = ParseLayerConfig(text, kConfigFiles[4]);
    ASSERT_TRUE(config.ok() && config->has_value());
    EXPECT_EQ((*config)->is_rotated, is_rotated);
  }
}

TEST(LayerConfigTest, OtherMethodsAreLeftAlone) {
  for (const std::string& text : {std::string("{}"), std::string(R"({"quantization_config":null})"),
                                  std::string(R"({"quantization_config":"gptq"})")}) {
    const auto config = ParseLayerConfig(text, kConfigFiles[0]);
    ASSERT_TRUE(config.ok()) << text << config.status();
    EXPECT_FALSE(config->has_value()) << text;
  }
}

TEST(LayerConfigTest, WrongFieldsAreNamed) {
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
    const auto config = ParseLayerConfig(text, kConfigFiles[0]);
    ASSERT_FALSE(config.ok()) << text.substr(0, 100);
    EXPECT_THAT(std::string(config.status().message()), HasSubstr(why));
    EXPECT_LT(config.status().message().size(), 600U);
  }
}

LayerConfig Sizes(const std::string& text, const ConfigFile& file) {
  const auto config = ParseLayerConfig(text, file);
  EXPECT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->has_value()) << text;
  return config->value_or(LayerConfig());
}

std::string Text(const LayerConfig& config) {
  std::string text;
  for (const BlockShape& block : config.blocks)
    absl::StrAppend(&text, block.lines, "x", block.k, " ");
  for (const int bits : config.bits) absl::StrAppend(&text, bits, " bits ");
  return text;
}

TEST(LayerConfigTest, SaysTheBlocksOfWeightsAlone) {
  EXPECT_EQ(
      Text(Sizes(Config(R"("quant_method":"fp8","weight_block_size":[128,64])"), kConfigFiles[0])),
      "128x64 ");
  EXPECT_EQ(Text(Sizes(Config(R"("quant_method":"compressed-tensors","config_groups":{
      "group_0":{"weights":{"num_bits":4,"group_size":128},"input_activations":{"group_size":16}},
      "group_1":{"weights":{"num_bits":8,"group_size":null,"block_structure":[128,128]}},
      "group_2":{"weights":{"group_size":-1,"block_structure":"2x4"}}},
      "kv_cache_scheme":{"group_size":7})"),
                       kConfigFiles[0])),
            "1x128 128x128 4 bits 8 bits ");
  EXPECT_EQ(Text(Sizes(R"({"producer":{"name":"modelopt"},"quantization":{"quant_algo":"MIXED",
      "quantized_layers":{"a":{"group_size":16},"b":{"group_size":128}}}})",
                       kConfigFiles[1])),
            "1x16 1x128 ");
  std::string many;
  for (int i = 0; i < 1000; ++i) absl::StrAppend(&many, i == 0 ? "" : ",", "{\"group_size\":32}");
  EXPECT_EQ(Sizes(Config("\"a\":[" + many + "]"), kConfigFiles[0]).blocks.size(), 64U);
}

TEST(LayerConfigTest, OldFilesOfGptqAndAwqHaveTheFieldsAlone) {
  const LayerConfig gptq =
      Sizes(R"({"bits":8,"group_size":32,"desc_act":false,"sym":true,"model_name_or_path":null})",
            kConfigFiles[2]);
  ASSERT_TRUE(gptq.packing.has_value());
  EXPECT_EQ(gptq.packing->packing, Packing::kGptq);
  EXPECT_EQ(gptq.packing->bits, 8U);
  const LayerConfig awq =
      Sizes(R"({"zero_point":true,"q_group_size":64,"w_bit":4,"version":"GEMV"})", kConfigFiles[3]);
  ASSERT_TRUE(awq.packing.has_value());
  EXPECT_EQ(awq.packing->packing, Packing::kAwqGemv);
  EXPECT_EQ(awq.packing->group_size, 64U);
}

TEST(LayerConfigTest, OldFilesOfMlxHaveAKeyOfTheirOwn) {
  EXPECT_EQ(Text(Sizes(R"({"quantization":{"group_size":64,"bits":4}})", kConfigFiles[5])),
            Text(Sizes(R"({"quantization_config":{"group_size":64}})", kConfigFiles[0])));
  EXPECT_EQ(Sizes(R"({"quantization":{"group_size":64}})", kConfigFiles[5]).blocks.size(), 1U);
}

}  // namespace
}  // namespace gemmd::client
