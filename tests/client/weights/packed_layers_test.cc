#include "client/weights/layers/packed_layers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/weights/layers/layer_config.h"
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

// A layer as its numbers, which Pack() packs as the formats say, one code at a time.
struct Numbers {
  std::uint64_t bits = 4;
  std::uint64_t n = 0;
  std::uint64_t k = 0;
  std::uint64_t group = 0;
  std::vector<int> codes;     // (k, n), n running fastest
  std::vector<int> zeros;     // (group, n)
  std::vector<float> scales;  // likewise, exact in f16
};

std::uint16_t HalfOf(float value) {  // of numbers that f16 has, none subnormal
  int exponent = 0;
  const float fraction = std::frexp(std::abs(value), &exponent);
  const float bits = (fraction * 2 - 1) * 1024;
  EXPECT_EQ(bits, std::floor(bits));
  return static_cast<std::uint16_t>((value < 0 ? 0x8000 : 0) |
                                    ((exponent + 14) << 10 | static_cast<int>(bits)));
}

Numbers RandomLayer(std::uint64_t n, std::uint64_t k, std::uint64_t group, std::uint32_t seed,
                    std::uint64_t bits = 4) {
  std::mt19937 random(seed);
  const std::uint32_t highest = (1U << bits) - 1;
  const std::uint64_t groups = (k + group - 1) / group;
  Numbers layer{bits, n, k, group, {}, {}, {}};
  for (std::uint64_t i = 0; i < n * k; ++i)
    layer.codes.push_back(static_cast<int>(random() & highest));
  for (std::uint64_t i = 0; i < groups * n; ++i) {
    layer.zeros.push_back(1 + static_cast<int>(random() % highest));
    const float magnitude = std::ldexp(1.0F, static_cast<int>(random() % 9) - 6);
    layer.scales.push_back(random() % 4 == 0 ? -magnitude : magnitude);
  }
  return layer;
}

// Codes of so many bits in words, in that order: bit by bit, 32 of 3 bits in three words.
std::string Words(const std::vector<int>& codes, std::uint64_t bits, std::uint64_t rows,
                  std::uint64_t columns, bool along_rows, const std::vector<int>& order, int less) {
  const std::uint64_t lines = along_rows ? columns : rows;
  const std::uint64_t in_line = (along_rows ? rows : columns) * bits / 32;
  const std::uint64_t run = order.empty() ? 1 : order.size();
  std::vector<std::uint32_t> words(lines * in_line);
  for (std::uint64_t line = 0; line < lines; ++line) {
    for (std::uint64_t bit = 0; bit < in_line * 32; ++bit) {
      const std::uint64_t at = bit / bits;
      const std::uint64_t index =
          at / run * run + (order.empty() ? 0 : static_cast<std::uint64_t>(order[at % run]));
      const std::uint64_t from = along_rows ? index * columns + line : line * columns + index;
      const auto code = static_cast<std::uint32_t>(codes[from] - less);
      const std::uint64_t word = along_rows ? bit / 32 * lines + line : line * in_line + bit / 32;
      words[word] |= (code >> (bit % bits) & 1) << (bit % 32);
    }
  }
  std::string bytes;
  for (const std::uint32_t word : words) bytes += Little(word, 4);
  return bytes;
}

// 32 codes in as many words as bits: those of their lowest piece, then those of the next ones.
std::string PlanarWords(const std::vector<int>& codes, std::uint64_t bits, std::uint64_t rows,
                        std::uint64_t columns, bool along_rows) {
  const std::uint64_t lines = along_rows ? columns : rows;
  const std::uint64_t in_line = (along_rows ? rows : columns) * bits / 32;
  std::vector<std::uint32_t> words(lines * in_line);
  for (std::uint64_t i = 0; i < codes.size(); ++i) {
    const std::uint64_t line = along_rows ? i % columns : i / columns;
    const std::uint64_t index = along_rows ? i / columns : i % columns;
    std::uint64_t below = 0;
    for (const std::uint64_t width : {4, 2, 1}) {
      if ((bits & width) == 0) continue;
      const std::uint64_t bit = 32 * below + index % 32 * width;
      const std::uint64_t at = index / 32 * bits + bit / 32;
      const auto piece = static_cast<std::uint32_t>(codes[i] >> below & ((1 << width) - 1));
      words[along_rows ? at * lines + line : line * in_line + at] |= piece << (bit % 32);
      below += width;
    }
  }
  std::string bytes;
  for (const std::uint32_t word : words) bytes += Little(word, 4);
  return bytes;
}

const std::vector<int> kInOrder;
const std::vector<int> kOfAwq = {0, 2, 4, 6, 1, 3, 5, 7};

// Columns become rows, of at least as many places, zero where there is nothing.
template <typename T>
std::vector<T> Turned(const std::vector<T>& values, std::uint64_t columns, std::uint64_t places) {
  std::vector<T> turned(columns * places);
  for (std::uint64_t i = 0; i < values.size(); ++i) {
    turned[i % columns * places + i / columns] = values[i];
  }
  return turned;
}

std::string Halves(const std::vector<float>& values) {
  std::string bytes;
  for (const float each : values) bytes += Little(each == 0 ? 0 : HalfOf(each), 2);
  return bytes;
}

std::vector<WeightTensor> PackGemv(const Numbers& layer) {
  const std::uint64_t groups = layer.zeros.size() / layer.n;
  const std::uint64_t step = layer.group >= 128 ? 1 : layer.group == 64 ? 2 : 4;
  const std::uint64_t words = ((groups + 7) / 8 + step - 1) / step * step;
  return {
      Tensor("l.qweight", "I32", {layer.n, layer.k / 8},
             Words(Turned(layer.codes, layer.n, layer.k), 4, layer.n, layer.k, false, {}, 0)),
      Tensor("l.qzeros", "I32", {layer.n, words},
             Words(Turned(layer.zeros, layer.n, words * 8), 4, layer.n, words * 8, false, {}, 0)),
      Tensor("l.scales", "F16", {layer.n, words * 8},
             Halves(Turned(layer.scales, layer.n, words * 8)))};
}

// By the steps of AutoAWQ's pack_intweight().
std::vector<WeightTensor> PackGemvFast(const Numbers& layer) {
  std::vector<std::uint64_t> order;
  for (std::uint64_t b = 0; b < 4; ++b) {
    for (std::uint64_t a = 0; a < 4; ++a)
      order.insert(order.end(), {8 * a + 2 * b, 8 * a + 2 * b + 1});
  }
  std::vector<std::uint64_t> of_32;
  for (std::uint64_t eight = 0; eight < 32; eight += 8) {
    for (const std::uint64_t at : {0, 2, 4, 6, 1, 3, 5, 7}) of_32.push_back(order[eight + at]);
  }
  std::vector<std::uint32_t> codes;
  for (std::uint64_t four = 0; four < layer.n; four += 4) {
    for (std::uint64_t run = 0; run < layer.k; run += 64) {
      for (std::uint64_t n = four; n < four + 4; ++n) {
        for (std::uint64_t i = 0; i < 64; ++i) {
          const std::uint64_t k = run + i / 32 * 32 + of_32[i % 32];
          codes.push_back(static_cast<std::uint32_t>(layer.codes[k * layer.n + n]));
        }
      }
    }
  }
  std::string words;
  for (std::uint64_t i = 0; i < codes.size(); i += 4) {
    words += Little(codes[i] | codes[i + 1] << 4 | codes[i + 2] << 8 | codes[i + 3] << 12, 2);
  }
  const std::uint64_t groups = layer.zeros.size() / layer.n;
  const std::uint64_t step = layer.group >= 128 ? 1 : layer.group == 64 ? 2 : 4;
  const std::uint64_t padded = ((groups + 7) / 8 + step - 1) / step * step * 8;
  std::vector<float> scales = layer.scales;
  std::vector<float> offsets;
  for (std::uint64_t i = 0; i < scales.size(); ++i) {
    offsets.push_back(-scales[i] * static_cast<float>(layer.zeros[i]));
  }
  scales.resize(padded * layer.n);
  offsets.resize(padded * layer.n);
  return {Tensor("l.qweight", "I16", {layer.n / 4, layer.k}, words),
          Tensor("l.qzeros", "F16", {padded, layer.n}, Halves(offsets)),
          Tensor("l.scales", "F16", {padded, layer.n}, Halves(scales))};
}

std::vector<WeightTensor> PackPlanar(const Numbers& layer) {
  const std::uint64_t groups = layer.zeros.size() / layer.n;
  return {Tensor("l.qweight", "I32", {layer.k * layer.bits / 32, layer.n},
                 PlanarWords(layer.codes, layer.bits, layer.k, layer.n, true)),
          Tensor("l.qzeros", "I32", {groups, layer.n * layer.bits / 32},
                 PlanarWords(layer.zeros, layer.bits, groups, layer.n, false)),
          Tensor("l.scales", "F16", {groups, layer.n}, Halves(layer.scales))};
}

std::vector<WeightTensor> Pack(const Numbers& layer, Packing packing, const char* scale = "F16") {
  if (packing == Packing::kAwqGemv) return PackGemv(layer);
  if (packing == Packing::kAwqGemvFast) return PackGemvFast(layer);
  if (packing == Packing::kGptqPlanar) return PackPlanar(layer);
  const bool is_awq = packing == Packing::kAwq;
  const std::vector<int>& order = is_awq ? kOfAwq : kInOrder;
  const std::uint64_t groups = layer.zeros.size() / layer.n;
  const std::uint64_t words = layer.n * layer.bits / 32;
  return {Tensor("l.qweight", "I32",
                 is_awq ? std::vector<std::uint64_t>{layer.k, words}
                        : std::vector<std::uint64_t>{layer.k * layer.bits / 32, layer.n},
                 Words(layer.codes, layer.bits, layer.k, layer.n, !is_awq, order, 0)),
          Tensor("l.qzeros", "I32", {groups, words},
                 Words(layer.zeros, layer.bits, groups, layer.n, false, order,
                       packing == Packing::kGptq ? 1 : 0)),
          Tensor("l.scales", scale, {groups, layer.n}, Halves(layer.scales))};
}

LayerConfig ConfigOf(Packing packing, std::uint64_t group_size, std::uint64_t bits = 4) {
  LayerConfig config;
  config.packing = PackingConfig{packing, bits, group_size, ""};
  return config;
}

void ExpectValues(const Numbers& layer, const LayerConfig& config, const std::string& format) {
  const std::vector<WeightTensor> tensors =
      CombineLayers(Pack(layer, config.packing->packing), config);
  ASSERT_EQ(tensors.size(), 1U);
  EXPECT_EQ(tensors[0].name, "l.weight");
  EXPECT_THAT(tensors[0].shape, ::testing::ElementsAre(layer.n, layer.k));
  ExpectMatrix(tensors[0], format, [&layer](std::uint64_t n, std::uint64_t k) {
    const std::uint64_t at = k / layer.group * layer.n + n;
    return (layer.codes[k * layer.n + n] - layer.zeros[at]) * double{layer.scales[at]};
  });
}

TEST(PackedLayersTest, EveryElementKeepsItsValue) {
  struct Case {
    std::uint64_t k;
    std::uint64_t group;
    std::uint64_t said;  // in the config; 0: all of K
    std::string format;
  };
  for (const Packing packing :
       {Packing::kGptq, Packing::kGptqV2, Packing::kAwq, Packing::kAwqGemv}) {
    for (const Case& each :
         {Case{512, 128, 128, "int4-g128-f16-zp"}, Case{192, 64, 64, "int4-g64-f16-zp"},
          Case{96, 32, 32, "int4-g32-f16-zp"}, Case{512, 256, 256, "int4-g128-f16-zp"},
          Case{160, 128, 128, "int4-g128-f16-zp"}, Case{328, 328, 0, "int4-g128-f16-zp"},
          Case{48, 48, 1000, "int4-g128-f16-zp"}}) {
      // AutoAWQ packs no such group so.
      if (packing == Packing::kAwqGemv && each.said > each.k) continue;
      ExpectValues(RandomLayer(72, each.k, each.group, 5), ConfigOf(packing, each.said),
                   each.format);
    }
  }
}

TEST(PackedLayersTest, GptqOfTwoAndEightBitsHasFormsOfMore) {
  for (const Packing packing : {Packing::kGptq, Packing::kGptqV2}) {
    ExpectValues(RandomLayer(72, 256, 128, 5, 8), ConfigOf(packing, 128, 8), "uint8-g128-zp");
    ExpectValues(RandomLayer(72, 132, 32, 6, 8), ConfigOf(packing, 32, 8), "uint8-g32-zp");
    ExpectValues(RandomLayer(72, 132, 132, 7, 8), ConfigOf(packing, 0, 8), "uint8-row-zp");
    ExpectValues(RandomLayer(64, 256, 128, 8, 2), ConfigOf(packing, 128, 2), "int4-g128-f16-zp");
  }
}

TEST(PackedLayersTest, GptqOfThreeBitsHasCodesAcrossWords) {
  for (const Packing packing : {Packing::kGptq, Packing::kGptqV2}) {
    ExpectValues(RandomLayer(96, 512, 128, 5, 3), ConfigOf(packing, 128, 3), "int4-g128-f16-zp");
    ExpectValues(RandomLayer(32, 192, 64, 6, 3), ConfigOf(packing, 64, 3), "int4-g64-f16-zp");
    ExpectValues(RandomLayer(160, 96, 32, 7, 3), ConfigOf(packing, 32, 3), "int4-g32-f16-zp");
    ExpectValues(RandomLayer(64, 160, 160, 8, 3), ConfigOf(packing, 0, 3), "int4-g128-f16-zp");
  }
  Numbers layer = RandomLayer(32, 64, 64, 9, 3);
  layer.zeros[21] = 8;
  const auto tensors = CombineLayers(Pack(layer, Packing::kGptq), ConfigOf(Packing::kGptq, 64, 3));
  EXPECT_EQ(OperandOf(tensors[0]).status().message(),
            "the block of row 21, columns 0 to 63 has no form in int4-g64-f16-zp: its zero point "
            "less 1 is 7, which programs read as 8 or carry over");
}

TEST(PackedLayersTest, GptqInPiecesHasCodesAcrossWords) {
  for (const std::uint64_t bits : {3, 5, 6, 7}) {
    const std::string type = bits == 3 ? "int4" : "uint8";
    const std::string scale = bits == 3 ? "-f16-zp" : "-zp";
    ExpectValues(RandomLayer(96, 512, 128, 5, bits), ConfigOf(Packing::kGptqPlanar, 128, bits),
                 absl::StrCat(type, "-g128", scale));
    ExpectValues(RandomLayer(32, 192, 64, 6, bits), ConfigOf(Packing::kGptqPlanar, 64, bits),
                 absl::StrCat(type, "-g64", scale));
    ExpectValues(RandomLayer(160, 96, 32, 7, bits), ConfigOf(Packing::kGptqPlanar, 32, bits),
                 absl::StrCat(type, "-g32", scale));
  }
  const Numbers layer = RandomLayer(40, 64, 64, 6, 8);
  std::vector<WeightTensor> tensors = Pack(layer, Packing::kGptqV2);
  tensors[0].shape[0] = 15;
  EXPECT_EQ(FormOf(CombineLayers(tensors, ConfigOf(Packing::kGptqPlanar, 64, 6)).at(0))
                .status()
                .message(),
            "GPTQ planar has no form here: its qweight has 15 rows, no multiple of 6");
}

TEST(PackedLayersTest, AwqGemvFastHasOffsets) {
  for (const std::uint64_t n : {8, 72, 136}) {
    for (const std::uint64_t k : {64, 192, 512}) {
      for (const std::uint64_t group : {32, 64}) {
        ExpectValues(RandomLayer(n, k, group, 5), ConfigOf(Packing::kAwqGemvFast, group),
                     absl::StrCat("int4-g", group, "-f16-offset"));
      }
    }
    ExpectValues(RandomLayer(n, 512, 128, 6), ConfigOf(Packing::kAwqGemvFast, 128),
                 "int4-g128-f16-offset");
    ExpectValues(RandomLayer(n, 1280, 128, 7), ConfigOf(Packing::kAwqGemvFast, 128),
                 "int4-g128-f16-offset");
  }
  // An offset that is no multiple of its scale.
  const Numbers layer = RandomLayer(8, 64, 64, 8);
  std::vector<WeightTensor> tensors = Pack(layer, Packing::kAwqGemvFast);
  std::string offsets(tensors[1].bytes.view());
  offsets.replace(2 * 3, 2, Little(HalfOf(0.3125F), 2));
  tensors[1].bytes = Bytes(offsets);
  const LayerConfig config = ConfigOf(Packing::kAwqGemvFast, 64);
  ExpectMatrix(CombineLayers(tensors, config).at(0), "int4-g64-f16-offset",
               [&](std::uint64_t n, std::uint64_t k) {
                 const double product = layer.codes[k * 8 + n] * double{layer.scales[n]};
                 return n == 3 ? product + 0.3125
                               : product - layer.zeros[n] * double{layer.scales[n]};
               });
  offsets.replace(2 * 3, 2, Little(0xfc00, 2));
  tensors[1].bytes = Bytes(offsets);
  EXPECT_EQ(OperandOf(CombineLayers(tensors, config).at(0)).status().message(),
            "the block of row 3, columns 0 to 63 has no form in int4-g64-f16-offset: its offset is "
            "-inf; it must be finite");
}

TEST(PackedLayersTest, ScalesMayBeOfBf16) {
  const Numbers layer = RandomLayer(8, 64, 64, 5);
  std::vector<WeightTensor> tensors = Pack(layer, Packing::kAwq, "BF16");
  tensors = CombineLayers(std::move(tensors), ConfigOf(Packing::kAwq, 64));
  const auto operand = OperandOf(tensors[0]);
  ASSERT_TRUE(operand.ok()) << operand.status();
  const auto& array = std::get<QuantizedArray>(*operand);
  EXPECT_EQ(array.format_name, "int4-g64-bf16-zp");
}

// Why such a layer has no form, which the list of tensors says.
std::string Why(std::vector<WeightTensor> tensors, const LayerConfig& config) {
  tensors = CombineLayers(std::move(tensors), config);
  EXPECT_EQ(tensors.size(), 1U);
  return std::string(FormOf(tensors[0]).status().message());
}

TEST(PackedLayersTest, ALayerWithoutAFormSaysWhy) {
  const Numbers layer = RandomLayer(16, 128, 64, 5);
  const auto pack = [&](std::size_t at, const char* type, std::vector<std::uint64_t> shape) {
    std::vector<WeightTensor> tensors = Pack(layer, Packing::kGptq);
    tensors[at].type = type;
    tensors[at].shape = std::move(shape);
    return tensors;
  };
  const LayerConfig config = ConfigOf(Packing::kGptq, 64);
  EXPECT_EQ(Why(pack(0, "I64", {16, 16}), config),
            "GPTQ has no form here: its qweight is I64 of [16, 16]; it must be I32 of [16, 16]");
  EXPECT_THAT(Why(pack(1, "I32", {3, 2}), config),
              HasSubstr("its qzeros is I32 of [3, 2]; it must be I32 of [2, 2]"));
  EXPECT_THAT(Why(pack(2, "F32", {2, 16}), config),
              HasSubstr("its scales is F32 of [2, 16]; it must be F16 of [2, 16]"));
  EXPECT_THAT(Why(Pack(layer, Packing::kGptq), ConfigOf(Packing::kGptq, 32)),
              HasSubstr("its qzeros is I32 of [2, 2]; it must be I32 of [4, 2]"));
  EXPECT_THAT(Why(Pack(RandomLayer(16, 96, 24, 5), Packing::kGptq), ConfigOf(Packing::kGptq, 24)),
              HasSubstr("it has a scale of f16 for each 1 x 24 uint4, and no form has that; "
                        "int4-g128-f16-zp is closest"));
  EXPECT_EQ(Why(Pack(layer, Packing::kGptq), ConfigOf(Packing::kGptq, 64, 5)),
            "GPTQ has no form here: its codes have 5 bits, and 2, 3, 4 and 8 are read; "
            "uint8-g128-zp is closest: gemm quantize makes it of the f16 or f32 file");
  EXPECT_EQ(Why(Pack(layer, Packing::kGptq), ConfigOf(Packing::kGptq, 64, 3)),
            "GPTQ has no form here: its qweight has 16 rows, no multiple of 3");
  std::vector<WeightTensor> narrow = Pack(RandomLayer(48, 64, 64, 5, 3), Packing::kGptq);
  EXPECT_EQ(Why(narrow, ConfigOf(Packing::kGptq, 64, 3)),
            "GPTQ has no form here: it has 48 columns, no multiple of 32");
  narrow[1].shape = {1, 5};
  EXPECT_EQ(Why(narrow, ConfigOf(Packing::kGptq, 64, 3)),
            "GPTQ has no form here: its qzeros is I32 of [1, 5]; it must be I32 of [1, 4]");
  EXPECT_THAT(Why(Pack(layer, Packing::kAwq), ConfigOf(Packing::kAwq, 64, 8)),
              HasSubstr("its codes have 8 bits, and 4 are read; uint8-g128-zp is closest"));
  const LayerConfig fast = ConfigOf(Packing::kAwqGemvFast, 64);
  std::vector<WeightTensor> tensors = Pack(layer, Packing::kAwqGemvFast);
  tensors[1].type = "I16";
  EXPECT_EQ(Why(tensors, fast),
            "AWQ gemv_fast has no form here: its qzeros is I16 of [16, 16]; it must be F16 of [16, "
            "16]");
  tensors[0].type = "I32";
  EXPECT_THAT(Why(tensors, fast), HasSubstr("its qweight is I32 of [4, 128]; it must be I16 of"));
  tensors = Pack(layer, Packing::kAwqGemvFast);
  tensors[0].shape = {4, 96};
  EXPECT_EQ(Why(tensors, fast), "AWQ gemv_fast has no form here: its K is 96, no multiple of 64");
  LayerConfig other = config;
  other.packing->why = "it is packed as \"marlin\"";
  EXPECT_THAT(Why(Pack(layer, Packing::kGptq), other), HasSubstr("it is packed as \"marlin\""));
}

// act-order: the places of K of a group lie apart.
TEST(PackedLayersTest, GroupsMayLieApart) {
  for (const auto& [k, group, bits] : {std::array<std::uint64_t, 3>{256, 64, 4},
                                       {192, 128, 4},
                                       {132, 32, 8},
                                       {256, 64, 3},
                                       {256, 128, 2}}) {
    const std::uint64_t size = group;
    const Numbers layer = RandomLayer(32, k, group, 5, bits);
    std::vector<std::uint32_t> groups;
    for (std::uint64_t i = 0; i < k; ++i) groups.push_back(static_cast<std::uint32_t>(i / size));
    std::shuffle(groups.begin(), groups.end(), std::mt19937(7));
    std::string bytes;
    for (const std::uint32_t each : groups) bytes += Little(each, 4);
    std::vector<WeightTensor> tensors = Pack(layer, Packing::kGptqV2);
    tensors.push_back(Tensor("l.g_idx", "I32", {k}, bytes));
    tensors = CombineLayers(std::move(tensors), ConfigOf(Packing::kGptqV2, group, bits));
    ASSERT_EQ(tensors.size(), 1U);
    const std::string format = bits == 8 ? absl::StrCat("uint8-g", group, "-zp")
                                         : absl::StrCat("int4-g", group, "-f16-zp");
    ExpectMatrix(tensors[0], format, [&layer, &groups](std::uint64_t n, std::uint64_t at) {
      const std::uint64_t of = groups[at] * layer.n + n;
      return (layer.codes[at * layer.n + n] - layer.zeros[of]) * double{layer.scales[of]};
    });
    const auto array = std::get<QuantizedArray>(*OperandOf(tensors[0]));
    ASSERT_NE(array.k_order, nullptr);
    const auto real = Dequantize(array);
    ASSERT_TRUE(real.ok());
    float last = 0;
    std::memcpy(&last, real->bytes().data() + (k - 1) * sizeof last, sizeof last);
    const std::uint64_t of = groups[k - 1] * layer.n;
    EXPECT_EQ(last, (layer.codes[(k - 1) * layer.n] - layer.zeros[of]) * layer.scales[of]);
  }
}

TEST(PackedLayersTest, GroupsHaveTheirSize) {
  const Numbers layer = RandomLayer(16, 128, 64, 5);
  const auto with_groups = [&](int changed, std::uint32_t group) {
    std::vector<WeightTensor> tensors = Pack(layer, Packing::kGptq);
    std::string bytes;
    for (int k = 0; k < 128; ++k) {
      bytes += Little(k == changed ? group : static_cast<std::uint32_t>(k / 64), 4);
    }
    tensors.push_back({"l.g_idx", false, "I32", {128}, Bytes(bytes), nullptr});
    return tensors;
  };
  const LayerConfig config = ConfigOf(Packing::kGptq, 64);
  const auto good = CombineLayers(with_groups(-1, 0), config);
  ASSERT_EQ(good.size(), 1U);
  EXPECT_TRUE(FormOf(good[0]).ok()) << FormOf(good[0]).status();
  EXPECT_THAT(Why(with_groups(127, 0), config),
              HasSubstr("its g_idx has the group 0 for k = 127 and 64 before; each group has 64, "
                        "the last one the rest of K"));
  EXPECT_THAT(Why(with_groups(0, ~0U), config),
              HasSubstr("has the group -1 for k = 0; there are 2"));
  EXPECT_THAT(Why(with_groups(0, 2), config), HasSubstr("has the group 2 for k = 0; there are 2"));
  std::vector<WeightTensor> short_one = with_groups(-1, 0);
  short_one[3].shape = {127};
  EXPECT_THAT(Why(short_one, config), HasSubstr("its g_idx is I32 of [127]; it must be I32 of"));
}

TEST(PackedLayersTest, ABlockWithoutAFormIsNamed) {
  Numbers layer = RandomLayer(16, 128, 64, 5);
  const auto why = [&](Packing packing) {
    const auto tensors = CombineLayers(Pack(layer, packing), ConfigOf(packing, 64));
    return std::string(OperandOf(tensors[0]).status().message());
  };
  layer.zeros[16 + 3] = 16;
  EXPECT_EQ(why(Packing::kGptq),
            "the block of row 3, columns 64 to 127 has no form in int4-g64-f16-zp: its zero point "
            "less 1 is 15, "
            "which programs read as 16 or carry over");
  layer.zeros[16 + 3] = 0;
  EXPECT_EQ(why(Packing::kGptqV2), "");
  EXPECT_EQ(why(Packing::kAwqGemv), "");
  std::vector<WeightTensor> tensors = Pack(layer, Packing::kAwq);
  std::string scales(tensors[2].bytes.view());
  scales[2 * 5 + 1] = 0x7c;
  tensors[2].bytes = Bytes(scales);
  tensors = CombineLayers(std::move(tensors), ConfigOf(Packing::kAwq, 64));
  EXPECT_THAT(
      std::string(OperandOf(tensors[0]).status().message()),
      HasSubstr(
          "the block of row 5, columns 0 to 63 has no form in int4-g64-f16-zp: its scale is inf"));
}

TEST(PackedLayersTest, TensorsThatMakeNoLayerStay) {
  const Numbers layer = RandomLayer(16, 128, 64, 5);
  const LayerConfig config = ConfigOf(Packing::kGptq, 64);
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
