#include "client/weights/layers/torchao_layers.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/numbers/float_bits.h"
#include "base/numbers/quant/elements.h"
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

// As torchao 0.18.0 writes it.
std::string TextOf(const std::string& class_name, const std::string& elements, std::uint64_t block,
                   bool has_tiles) {
  const std::string element_type =
      elements.empty()
          ? ""
          : absl::StrCat(R"("elem_dtype": {"_type": "torch.dtype", "_data": ")", elements, "\"}, ");
  return absl::StrCat(
      R"({"_type": ")", class_name, R"(", "_data": {)", element_type, R"("block_size": )", block,
      R"(, "orig_dtype": {"_type": "torch.dtype", "_data": "float32"}, "act_quant_kwargs": null, )",
      R"("is_swizzled_scales": )", has_tiles ? "true" : "false",
      R"(}, "_tensor_data_names": ["qdata", "scale"]})");
}

// A matrix or a stack, packed one element at a time.
struct Torchao {
  DataType element = DataType::kFp4E2M1;
  std::uint64_t parts = 0;
  std::uint64_t n = 0;
  std::uint64_t k = 0;
  std::uint64_t block = 32;
  bool has_tiles = false;
  bool is_nvfp4 = false;
  std::vector<std::uint32_t> codes;
  std::vector<std::uint8_t> scales;  // of each line's blocks

  std::uint64_t lines() const { return (parts == 0 ? 1 : parts) * n; }
  std::uint64_t blocks() const { return (k + block - 1) / block; }

  void Fill(std::uint32_t seed) {
    std::mt19937 random(seed);
    const std::uint32_t mask = element == DataType::kFp4E2M1 ? 15 : 0x7b;  // no NaN, no infinity
    for (std::uint64_t i = 0; i < lines() * k; ++i) codes.push_back(random() & mask);
    for (std::uint64_t i = 0; i < lines() * blocks(); ++i) {
      scales.push_back(static_cast<std::uint8_t>(is_nvfp4 ? random() % 0x7f : 110 + random() % 30));
    }
  }

  Shape Sized(std::uint64_t rows, std::uint64_t columns) const {
    return parts == 0 ? Shape{rows, columns} : Shape{parts, rows, columns};
  }

  WeightTensor Codes() const {
    const bool is_fp4 = element == DataType::kFp4E2M1;
    std::string bytes;
    for (std::uint64_t i = 0; i < codes.size(); i += is_fp4 ? 2 : 1) {
      bytes += static_cast<char>(is_fp4 ? codes[i] | codes[i + 1] << 4 : codes[i]);
    }
    const char* type = is_fp4 ? "U8" : element == DataType::kFp8E4M3 ? "F8_E4M3" : "F8_E5M2";
    return {"m._weight_qdata", false, type, Sized(n, is_fp4 ? k / 2 : k), Bytes(bytes), nullptr};
  }

  WeightTensor Scales() const {
    const char* type = is_nvfp4 ? "F8_E4M3" : "F8_E8M0";
    if (!has_tiles) {
      return {"m._weight_scale",
              false,
              type,
              Sized(n, blocks()),
              Bytes(std::string(scales.begin(), scales.end())),
              nullptr};
    }
    const std::uint64_t tiles = (blocks() + 3) / 4;
    const std::uint64_t tile_lines = (n + 127) / 128;
    std::string bytes(lines() / n * tile_lines * tiles * 512, '\0');
    for (std::uint64_t i = 0; i < scales.size(); ++i) {
      const std::uint64_t part = i / blocks() / n;
      const std::uint64_t line = i / blocks() % n;
      const std::uint64_t column = i % blocks();
      // cuBLAS' words: (outer % 32) * 16 + (outer / 32) * 4 + inner within a tile.
      const std::uint64_t tile = (part * tile_lines + line / 128) * tiles + column / 4;
      bytes[tile * 512 + line % 32 * 16 + line % 128 / 32 * 4 + column % 4] =
          static_cast<char>(scales[i]);
    }
    return {"m._weight_scale", false,  type, Sized(tile_lines * 32, tiles * 16),
            Bytes(bytes),      nullptr};
  }

  LayerConfig Config() const {
    LayerConfig config;
    const char* elements = is_nvfp4                        ? ""
                           : element == DataType::kFp8E4M3 ? "float8_e4m3fn"
                           : element == DataType::kFp8E5M2 ? "float8_e5m2"
                                                           : "float4_e2m1fn_x2";
    config.metadata["m.weight"] =
        TextOf(is_nvfp4 ? "NVFP4Tensor" : "MXTensor", elements, block, has_tiles);
    config.metadata["tensor_names"] = R"(["m.weight"])";
    return config;
  }

  double Value(std::uint64_t line, std::uint64_t column) const {
    const std::uint8_t scale = scales[line * blocks() + column / block];
    const DataType type = is_nvfp4 ? DataType::kFp8E4M3 : DataType::kE8M0;
    return DecodeElement(element, codes[line * k + column]) * DecodeElement(type, scale);
  }
};

WeightTensor Made(const std::vector<WeightTensor>& tensors, const LayerConfig& config) {
  const std::vector<WeightTensor> made = CombineLayers(tensors, config);
  EXPECT_EQ(made.size(), 1U);
  EXPECT_EQ(made.at(0).name, "m.weight");
  return made.at(0);
}

TEST(TorchaoLayersTest, MxAndNvfp4HaveScalesInLinesOrTiles) {
  struct Case {
    DataType element;
    bool is_nvfp4;
    std::string format;
  };
  for (const Case& each :
       {Case{DataType::kFp4E2M1, true, "nvfp4"}, Case{DataType::kFp4E2M1, false, "mxfp4"},
        Case{DataType::kFp8E4M3, false, "mxfp8-e4m3"},
        Case{DataType::kFp8E5M2, false, "mxfp8-e5m2"}}) {
    for (const std::uint64_t n : {1, 5, 32, 100, 128, 160, 300}) {
      for (const std::uint64_t k : {32, 128, 288}) {
        for (const bool has_tiles : {false, true}) {
          Torchao matrix;
          matrix.element = each.element;
          matrix.n = n;
          matrix.k = k;
          matrix.block = each.is_nvfp4 ? 16 : 32;
          matrix.has_tiles = has_tiles;
          matrix.is_nvfp4 = each.is_nvfp4;
          matrix.Fill(static_cast<std::uint32_t>(n + k));
          ExpectMatrix(
              Made({matrix.Codes(), matrix.Scales()}, matrix.Config()), each.format,
              [&](std::uint64_t line, std::uint64_t at) { return matrix.Value(line, at); });
        }
      }
    }
  }
}

TEST(TorchaoLayersTest, StacksHaveScalesOfEachOrOfAll) {
  for (const bool has_tiles : {false, true}) {
    for (const bool is_of_each : {false, true}) {
      Torchao stack;
      stack.parts = 3;
      stack.n = has_tiles ? 128 : 12;
      stack.k = 96;
      stack.block = 16;
      stack.has_tiles = has_tiles;
      stack.is_nvfp4 = true;
      stack.Fill(4);
      const std::string eighths = Little(0x3e000000, 4) + Little(0x40000000, 4) + Little(0, 4);
      const WeightTensor overall = {"m._weight_per_tensor_scale",
                                    false,
                                    "F32",
                                    is_of_each ? Shape{3, 1, 1} : Shape{},
                                    Bytes(eighths.substr(0, is_of_each ? 12 : 4)),
                                    nullptr};
      const WeightTensor made = Made({stack.Codes(), stack.Scales(), overall}, stack.Config());
      EXPECT_THAT(made.shape, ::testing::ElementsAre(3, stack.n, 96));
      for (std::uint64_t part = 0; part < 3; ++part) {
        const double factor = !is_of_each || part == 0 ? 0.125 : part == 1 ? 2 : 0;
        ExpectMatrix(MatrixOf(made, part), "nvfp4", [&](std::uint64_t line, std::uint64_t at) {
          return stack.Value(part * stack.n + line, at) * factor;
        });
      }
    }
  }
}

// Why a matrix has no form, which the list of tensors says.
std::string Why(const std::vector<WeightTensor>& tensors, const LayerConfig& config) {
  return std::string(FormOf(Made(tensors, config)).status().message());
}

TEST(TorchaoLayersTest, TheMetadataIsBelievedAboutNothing) {
  Torchao matrix;
  matrix.n = 4;
  matrix.k = 64;
  matrix.Fill(1);
  const auto why_of = [&](const std::string& text) {
    LayerConfig config;
    config.metadata["m.weight"] = text;
    return Why({matrix.Codes(), matrix.Scales()}, config);
  };
  EXPECT_EQ(why_of(TextOf("MXTensor", "float4_e2m1fn_x2", 32, false)), "");
  EXPECT_EQ(why_of("[]"),
            "torchao U8 has no form here: its text in torchao's metadata is no JSON object with a "
            "_type");
  EXPECT_THAT(why_of(R"({"_type": 1})"), HasSubstr("is no JSON object with a _type"));
  EXPECT_THAT(why_of(R"({"_type": "MXTensor")"), HasSubstr("is no JSON object with a _type"));
  EXPECT_THAT(
      why_of(absl::StrCat(R"({"_type": "MXTensor", "_data": {"block_size": )",
                          std::string(8000, '['), std::string(8000, ']'), "}}")),
      HasSubstr("its block_size in torchao's metadata is \"[[[[[[]]]]]]\"; it must be a whole"));
  EXPECT_EQ(why_of(std::string(16385, ' ')),
            "torchao U8 has no form here: its text in torchao's metadata has 16385 bytes; at most "
            "16384 are read");
  EXPECT_EQ(why_of(R"({"_type": "MXTensor", "_data": []})"),
            "torchao U8 has no form here: its _data in torchao's metadata is \"[]\"; it must be an "
            "object");
  EXPECT_EQ(why_of(R"({"_type": "MXTensor", "_data": {"block_size": 0}})"),
            "torchao U8 has no form here: its block_size in torchao's metadata is \"0\"; it must "
            "be a whole number from 1 to 2147483647");
  EXPECT_EQ(why_of(R"({"_type": "MXTensor", "_data": {"block_size": 32}})"),
            "torchao U8 has no form here: its is_swizzled_scales in torchao's metadata is "
            "\"null\"; it must be true or false");
  EXPECT_EQ(why_of(TextOf("MXTensor", "fp6_e2m3", 32, false)),
            "torchao U8 has no form here: its elements are \"fp6_e2m3\" in torchao's metadata, and "
            "float8_e4m3fn, float8_e5m2 and float4_e2m1fn_x2 are read; mxfp6-e3m2 and mxfp6-e2m3 "
            "are closest: gemm quantize makes them of the f16 or f32 file");
  EXPECT_EQ(why_of(TextOf("Int4TilePackedTo4dTensor", "", 32, false)),
            "torchao U8 has no form here: its class in torchao's metadata, "
            "\"Int4TilePackedTo4dTensor\", has an order of a kernel, which is not read; "
            "int4-g128-bf16-zp is closest: gemm quantize makes it of the f16 or f32 file");
}

TEST(TorchaoLayersTest, PlanesMustBeOfTheirTypesAndShapes) {
  Torchao matrix;
  matrix.n = 4;
  matrix.k = 64;
  matrix.Fill(1);
  const LayerConfig config = matrix.Config();
  WeightTensor codes = matrix.Codes();
  WeightTensor scales = matrix.Scales();
  EXPECT_EQ(Why({codes}, config), "torchao MXFP4 has no form here: its scale is missing");
  scales.shape = {2, 4};
  EXPECT_EQ(Why({codes, scales}, config),
            "torchao MXFP4 has no form here: its scale is F8_E8M0 of [2, 4]; it must be F8_E8M0 of "
            "[4, 2]");
  scales = matrix.Scales();
  scales.type = "U8";
  EXPECT_THAT(Why({codes, scales}, config), HasSubstr("its scale is U8 of [4, 2]; it must be F8_"));
  matrix.has_tiles = true;
  EXPECT_EQ(Why({codes, matrix.Scales()}, config),
            "torchao MXFP4 has no form here: its scale is F8_E8M0 of [32, 16]; it must be F8_E8M0 "
            "of [4, 2]");
  scales = matrix.Scales();
  scales.shape = {64, 8};
  EXPECT_THAT(Why({codes, scales}, matrix.Config()), HasSubstr("it must be F8_E8M0 of [32, 16]"));
  codes.type = "I8";
  EXPECT_EQ(Why({codes, scales}, config),
            "torchao MXFP4 has no form here: its qdata is I8 of [4, 32]; it must be U8 of [4, 32]");
  codes.type = "U8";
  for (const Shape& shape :
       {Shape{128}, Shape{2, 2, 2, 16}, Shape{4, 0}, Shape{std::uint64_t{1} << 31, 32}}) {
    codes.shape = shape;
    EXPECT_THAT(Why({codes, scales}, config), HasSubstr("its qdata has shape ["));
  }
  Torchao stack;
  stack.parts = 2;
  stack.n = 64;
  stack.k = 64;
  stack.has_tiles = true;
  stack.Fill(1);
  EXPECT_EQ(Why({stack.Codes(), stack.Scales()}, stack.Config()),
            "torchao MXFP4 has no form here: its scales are in tiles of 128 rows, and its matrices "
            "have 64, so that two share a tile");
  Torchao nvfp4;
  nvfp4.is_nvfp4 = true;
  nvfp4.n = 4;
  nvfp4.k = 64;
  nvfp4.block = 16;
  nvfp4.Fill(1);
  const WeightTensor overall = {"m._weight_per_tensor_scale", false,  "F32", {2},
                                Bytes(std::string(8, '\0')),  nullptr};
  EXPECT_EQ(Why({nvfp4.Codes(), nvfp4.Scales(), overall}, nvfp4.Config()),
            "torchao NVFP4 has no form here: its per_tensor_scale is F32 of [2]; it must be F32 of "
            "[]");
  Torchao odd;
  odd.n = 4;
  odd.k = 48;
  odd.block = 24;
  odd.is_nvfp4 = true;
  odd.Fill(1);
  EXPECT_THAT(
      Why({odd.Codes(), odd.Scales()}, odd.Config()),
      HasSubstr("it has a scale of fp8_e4m3 for each 1 x 24 fp4_e2m1, and no form has that"));
}

// BF16 numbers with eight bits of fraction.
std::string Bf16(const std::vector<float>& values) {
  std::string bytes;
  for (const float each : values) bytes += Little(BitsOf(each) >> 16, 2);
  return bytes;
}

std::string Int4Text(const std::string& block) {
  return absl::StrCat(R"({"_type": "Int4Tensor", "_data": {"activation_dtype": {"_type": )",
                      R"("torch.dtype", "_data": "bfloat16"}, "block_size": )", block,
                      R"(, "shape": [6, 256]}, "_tensor_data_names": ["qdata", "scale"]})");
}

TEST(TorchaoLayersTest, Int4TensorHasOffsetsOfSignedCodes) {
  for (const std::uint64_t parts : {0, 2}) {
    const std::uint64_t lines = (parts == 0 ? 1 : parts) * 6;
    std::mt19937 random(3);
    std::string bytes;
    for (std::uint64_t i = 0; i < lines * 128; ++i) bytes += static_cast<char>(random());
    std::vector<float> scales;
    std::vector<float> zeros;
    for (std::uint64_t i = 0; i < lines * 2; ++i) {
      scales.push_back(std::ldexp(static_cast<float>(128 + random() % 128), -14));
      zeros.push_back(std::ldexp(static_cast<float>(random() % 256) - 128, -10));
    }
    const auto shape = [parts](std::uint64_t rows, std::uint64_t columns) {
      return parts == 0 ? Shape{rows, columns} : Shape{parts, rows, columns};
    };
    const auto tensors = [&] {
      return std::vector<WeightTensor>{
          {"m._weight_qdata", false, "I8", shape(6, 128), Bytes(bytes), nullptr},
          {"m._weight_scale", false, "BF16", shape(2, 6), Bytes(Bf16(scales)), nullptr},
          {"m._weight_zero_point", false, "BF16", shape(2, 6), Bytes(Bf16(zeros)), nullptr}};
    };
    LayerConfig config;
    config.metadata["m.weight"] = Int4Text(parts == 0 ? "[1, 128]" : "[1, 1, 128]");
    const WeightTensor made = Made(tensors(), config);
    for (std::uint64_t part = 0; part < std::max<std::uint64_t>(parts, 1); ++part) {
      ExpectMatrix(
          parts == 0 ? made : MatrixOf(made, part), "int4-g128-f32-offset",
          [&](std::uint64_t n, std::uint64_t k) {
            const auto byte = static_cast<std::uint8_t>(bytes[(part * 6 + n) * 128 + k / 2]);
            const int code = byte >> (k % 2 * 4) & 15;
            const std::uint64_t block = (part * 2 + k / 128) * 6 + n;
            return (code < 8 ? code : code - 16) * double{scales[block]} + double{zeros[block]};
          });
    }
    if (parts != 0) continue;
    // A sum that f32 rounds.
    zeros[3] = std::ldexp(1.0F, 20);
    EXPECT_EQ(OperandOf(Made(tensors(), config)).status().message(),
              "the block of row 3, columns 0 to 127 has no form in int4-g128-f32-offset: its "
              "offset, 1.04858e+06 - 0.0820312, has no f32");
    std::vector<WeightTensor> changed = tensors();
    changed[2].type = "F16";
    EXPECT_EQ(Why(changed, config),
              "torchao INT4 has no form here: its zero_point is F16 of [2, 6]; it must be BF16 of "
              "[2, 6]");
    changed[1].type = "F32";
    EXPECT_EQ(Why(changed, config),
              "torchao INT4 has no form here: its scale is F32 of [2, 6]; it must be BF16 of [2, "
              "6]");
    changed.pop_back();
    EXPECT_EQ(Why(changed, config), "torchao INT4 has no form here: its zero_point is missing");
    config.metadata["m.weight"] = Int4Text("[2, 128]");
    EXPECT_EQ(
        Why(tensors(), config),
        "torchao I8 has no form here: its block_size in torchao's metadata is \"[2,128]\"; it "
        "must be 1 in each dimension but K");
    config.metadata["m.weight"] = Int4Text("[]");
    EXPECT_THAT(Why(tensors(), config), HasSubstr("block_size in torchao's metadata is \"null\""));
  }
}

TEST(TorchaoLayersTest, WhatIsNotOfTheseClassesStays) {
  Torchao matrix;
  matrix.n = 4;
  matrix.k = 64;
  matrix.Fill(1);
  LayerConfig config = matrix.Config();
  const std::vector<WeightTensor> tensors = {
      matrix.Codes(),
      matrix.Scales(),
      {"m.weight", false, "F32", {1, 1}, Bytes(std::string(4, 'x')), nullptr}};
  EXPECT_EQ(CombineLayers(tensors, config).size(), 3U);
  config.metadata["m.weight"] = TextOf("Int8Tensor", "", 32, false);
  WeightTensor codes = matrix.Codes();
  codes.type = "I8";
  const WeightTensor made = Made(
      {codes, {"m._weight_scale", false, "F32", {4, 1}, Bytes(std::string(16, '\0')), nullptr}},
      config);
  EXPECT_EQ(made.type, "I8*F32");
}

}  // namespace
}  // namespace gemmd::client
