#include "client/weights/layers/mlx_layers.h"

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

LayerConfig Groups(const std::vector<std::uint64_t>& sizes) {
  LayerConfig config;
  for (const std::uint64_t size : sizes) config.blocks.push_back({1, size});
  return config;
}

WeightTensor Made(const std::vector<WeightTensor>& tensors, const LayerConfig& config) {
  for (WeightTensor& each : CombineLayers(tensors, config)) {
    if (each.name == "l.weight") return std::move(each);
  }
  ADD_FAILURE() << "there is no l.weight";
  return {};
}

// Codes bit after bit, and BF16 of few bits.
struct Affine {
  std::uint64_t bits;
  std::uint64_t n;
  std::uint64_t k;
  std::uint64_t group;
  std::vector<std::uint32_t> codes;
  std::vector<float> scales;
  std::vector<float> biases;

  Affine(std::uint64_t bits_of_codes, std::uint64_t lines, std::uint64_t columns,
         std::uint64_t group_size)
      : bits(bits_of_codes), n(lines), k(columns), group(group_size) {
    std::mt19937 random(11);
    for (std::uint64_t i = 0; i < n * k; ++i) codes.push_back(random() & ((1U << bits) - 1));
    for (std::uint64_t i = 0; i < n * k / group; ++i) {
      scales.push_back((static_cast<float>(random() % 256) - 128) / 64);
      biases.push_back((static_cast<float>(random() % 256) - 128) / 16);
    }
  }

  static std::string Bf16(const std::vector<float>& values) {
    std::string bytes;
    for (const float each : values) bytes += Little(ToBf16(each), 2);
    return bytes;
  }

  std::vector<WeightTensor> Tensors() const {
    std::string words(n * k * bits / 8, '\0');
    for (std::uint64_t i = 0; i < codes.size() * bits; ++i) {
      if ((codes[i / bits] >> (i % bits) & 1) != 0) words[i / 8] |= static_cast<char>(1 << (i % 8));
    }
    return {Tensor("l.weight", "U32", {n, k * bits / 32}, words),
            Tensor("l.scales", "BF16", {n, k / group}, Bf16(scales)),
            Tensor("l.biases", "BF16", {n, k / group}, Bf16(biases))};
  }

  double Value(std::uint64_t line, std::uint64_t at) const {
    const std::uint64_t block = (line * k + at) / group;
    return static_cast<double>(codes[line * k + at]) * double{scales[block]} +
           double{biases[block]};
  }
};

TEST(MlxLayersTest, AffineHasOffsets) {
  for (const std::uint64_t bits : {2, 3, 4, 5, 6, 8}) {
    for (const std::uint64_t group : {32, 64, 128}) {
      const Affine layer(bits, 6, 256, group);
      ExpectMatrix(
          Made(layer.Tensors(), Groups({group})),
          bits > 4 ? absl::StrCat("uint8-g", group, "-offset")
                   : absl::StrCat("int4-g", group, "-bf16-offset"),
          [&layer](std::uint64_t line, std::uint64_t at) { return layer.Value(line, at); });
    }
  }
}

TEST(MlxLayersTest, AStackHasAMatrixEach) {
  const Affine layer(4, 6, 64, 32);
  std::vector<WeightTensor> tensors = layer.Tensors();
  for (WeightTensor& each : tensors) each.shape = {2, 3, each.shape[1]};
  const WeightTensor made = Made(tensors, Groups({32}));
  EXPECT_EQ(made.shape, (std::vector<std::uint64_t>{2, 3, 64}));
  ExpectMatrix(
      MatrixOf(made, 1), "int4-g32-bf16-offset",
      [&layer](std::uint64_t line, std::uint64_t at) { return layer.Value(3 + line, at); });
}

TEST(MlxLayersTest, ShapesSayModesWithoutBiases) {
  struct Mode {
    std::uint64_t words;
    std::uint64_t group;
    DataType element;
    DataType scale;
    const char* form;
  };
  for (const Mode& mode : {Mode{2, 16, DataType::kFp4E2M1, DataType::kFp8E4M3, "nvfp4"},
                           Mode{4, 32, DataType::kFp4E2M1, DataType::kE8M0, "mxfp4"},
                           Mode{8, 32, DataType::kFp8E4M3, DataType::kE8M0, "mxfp8-e4m3"}}) {
    constexpr std::uint64_t kLines = 3;
    constexpr std::uint64_t kGroups = 4;
    const std::string codes = RandomBytes(kLines * kGroups * mode.words * 4, 3, "\x7f\xff");
    const std::string scales = RandomBytes(kLines * kGroups, 4, "\x7f\xff");
    const WeightTensor made =
        Made({Tensor("l.weight", "U32", {kLines, kGroups * mode.words}, codes),
              Tensor("l.scales", "U8", {kLines, kGroups}, scales)},
             {});
    ExpectMatrix(made, mode.form, [&](std::uint64_t line, std::uint64_t at) {
      const std::uint64_t i = line * kGroups * mode.group + at;
      const auto bits = static_cast<std::uint64_t>(SizeBits(mode.element));
      const std::uint32_t code =
          static_cast<std::uint8_t>(codes[i * bits / 8]) >> (i * bits % 8) & ((1U << bits) - 1);
      return DecodeElement(mode.element, code) *
             DecodeElement(mode.scale, static_cast<std::uint8_t>(scales[i / mode.group]));
    });
  }
}

TEST(MlxLayersTest, ALayerWithoutAFormSaysWhy) {
  const Affine layer(4, 6, 256, 64);
  const std::vector<WeightTensor> good = layer.Tensors();
  const auto why = [](const std::vector<WeightTensor>& tensors, const LayerConfig& config) {
    return std::string(FormOf(Made(tensors, config)).status().message());
  };
  EXPECT_EQ(why(good, Groups({64})), "");
  const std::string unsaid =
      "MLX affine has no form here: its groups have 8 words, and the quantization of config.json "
      "beside it does not say one group_size that has so many, of 2, 3, 4, 5, 6 or 8 bits";
  EXPECT_EQ(why(good, {}), unsaid);
  EXPECT_EQ(why(good, Groups({32, 64})), unsaid);
  EXPECT_EQ(why(good, Groups({48})), unsaid);
  std::vector<WeightTensor> tensors = good;
  tensors[2].type = "F16";
  EXPECT_EQ(why(tensors, Groups({64})),
            "MLX affine has no form here: its biases is F16 of [6, 4]; it must be BF16 of [6, 4]");
  tensors = good;
  tensors[1] = Tensor("l.scales", "U8", {6, 4}, std::string(24, '1'));
  EXPECT_EQ(why(tensors, Groups({64})),
            "MLX affine has no form here: its scales are U8; they must be F32, F16 or BF16");
  tensors.pop_back();
  tensors[1] = Tensor("l.scales", "U8", {6, 32}, std::string(192, '1'));
  EXPECT_EQ(why(tensors, {}),
            "MLX affine has no form here: it has no biases, its scales are U8, and its groups have "
            "1 words; nvfp4, mxfp4 and mxfp8 of U8 scales and 2, 4 and 8 words are read so");
  tensors[1] = Tensor("l.scales", "U8", {6, 5}, std::string(30, '1'));
  EXPECT_EQ(why(tensors, {}),
            "MLX affine has no form here: its scales are U8 of [6, 5], which is not the shape of "
            "groups of U32 of [6, 32]");
}

}  // namespace
}  // namespace gemmd::client
