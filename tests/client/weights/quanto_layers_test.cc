#include "client/weights/layers/quanto_layers.h"

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
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

// A layer of groups, one after another; floats are multiples of 1/64 below 4, which F16 has.
struct Quanto {
  std::uint64_t bits;
  std::uint64_t n;
  std::uint64_t k;
  std::uint64_t group;
  std::string type;
  std::vector<std::uint32_t> codes;
  std::vector<float> scales;
  std::vector<float> shifts;

  Quanto(std::uint64_t bits_of_codes, std::uint64_t lines, std::uint64_t columns,
         std::uint64_t group_size, std::string type_of_scales)
      : bits(bits_of_codes),
        n(lines),
        k(columns),
        group(group_size),
        type(std::move(type_of_scales)) {
    std::mt19937 random(7);
    for (std::uint64_t i = 0; i < n * k; ++i) codes.push_back(random() & ((1U << bits) - 1));
    for (std::uint64_t i = 0; i < n * k / group; ++i) {
      scales.push_back(static_cast<float>(1 + random() % 255) / 64);
      shifts.push_back(static_cast<float>(random() % 255) / 64 - 2);
    }
  }

  std::string Floats(const std::vector<float>& values) const {
    std::string bytes;
    for (const float each : values) {
      bytes += type == "F32"   ? Little(BitsOf(each), 4)
               : type == "F16" ? Little(ToF16(each), 2)
                               : Little(ToBf16(each), 2);
    }
    return bytes;
  }

  // The first part of all groups is lowest.
  std::vector<WeightTensor> Tensors() const {
    const std::uint64_t in_byte = 8 / bits;
    const std::uint64_t rows = n * k / group;
    std::string packed;
    for (std::uint64_t i = 0; i < codes.size() / in_byte; ++i) {
      std::uint32_t byte = 0;
      for (std::uint64_t part = 0; part < in_byte; ++part) {
        byte |= codes[i + part * (codes.size() / in_byte)] << (part * bits);
      }
      packed += static_cast<char>(byte);
    }
    return {Tensor("l.bias", "F32", {n}, std::string(n * 4, '0')),
            Tensor("l.weight._data._data", "U8", {rows / in_byte, group}, packed),
            Tensor("l.weight._scale", type, {rows, 1}, Floats(scales)),
            Tensor("l.weight._shift", type, {rows, 1}, Floats(shifts))};
  }
};

WeightTensor Made(const std::vector<WeightTensor>& tensors) {
  for (WeightTensor& each : CombineLayers(tensors, {})) {
    if (each.name == "l.weight") return std::move(each);
  }
  ADD_FAILURE() << "there is no l.weight";
  return {};
}

std::string Why(const std::vector<WeightTensor>& tensors) {
  return std::string(FormOf(Made(tensors)).status().message());
}

TEST(QuantoLayersTest, CodesLessTheirShiftsHaveOffsets) {
  for (const std::uint64_t bits : {2, 4}) {
    for (const auto& [type, suffix] : {std::pair("F16", "f16"), {"F32", "f32"}, {"BF16", "bf16"}}) {
      for (const std::uint64_t group : {32, 128}) {
        const Quanto layer(bits, 12, 256, group, type);
        ExpectMatrix(Made(layer.Tensors()), absl::StrCat("int4-g", group, "-", suffix, "-offset"),
                     [&layer](std::uint64_t line, std::uint64_t at) {
                       const std::uint64_t block = (line * layer.k + at) / layer.group;
                       return static_cast<double>(layer.codes[line * layer.k + at]) *
                                  double{layer.scales[block]} -
                              double{layer.shifts[block]};
                     });
      }
    }
  }
}

TEST(QuantoLayersTest, ALayerWithoutAFormSaysWhy) {
  const Quanto layer(4, 12, 256, 128, "F16");
  const std::vector<WeightTensor> good = layer.Tensors();
  const auto why = [&good](std::size_t changed, const WeightTensor& tensor) {
    std::vector<WeightTensor> tensors = good;
    tensors[changed] = tensor;
    return Why(tensors);
  };
  const std::string closest =
      "; int4-g128-f16-offset is closest: gemm quantize makes it of the f16 or f32 file";
  EXPECT_EQ(Why(good), "");
  EXPECT_EQ(why(0, Tensor("other.bias", "F32", {12}, std::string(48, '0'))),
            "quanto has no form here: its groups are in order, but the file does not say its N and "
            "K, and there is no bias beside it that would say N" +
                closest);
  EXPECT_EQ(why(0, Tensor("l.bias", "F32", {5}, std::string(20, '0'))),
            "quanto has no form here: its bias says that N is 5, and it has 24 groups: N must "
            "divide them, and 2 divide N" +
                closest);
  EXPECT_EQ(why(0, Tensor("l.bias", "F32", {3}, std::string(12, '0'))),
            "quanto has no form here: its bias says that N is 3, and it has 24 groups: N must "
            "divide them, and 2 divide N" +
                closest);
  EXPECT_EQ(why(1, Tensor("l.weight._data._data", "U8", {24, 128}, std::string(3072, '0'))),
            "quanto has no form here: its _data has 24 rows, and its _scale 24; codes of 4 bits "
            "have 2 in a byte, those of 2 bits 4" +
                closest);
  EXPECT_EQ(why(1, Tensor("l.weight._data._data", "I8", {12, 128}, std::string(1536, '0'))),
            "quanto has no form here: its _data is I8 of [12, 128]; it must be U8 of [12, 128]");
  EXPECT_EQ(why(2, Tensor("l.weight._scale", "F16", {24}, std::string(48, '0'))),
            "quanto has no form here: its _scale is F16 of [24]; it must be F16 of [24, 1]");
  EXPECT_EQ(why(3, Tensor("l.weight._shift", "I8", {24, 1}, std::string(24, '0'))),
            "quanto has no form here: its _shift is I8 of [24, 1]; it must be F16 of [24, 1]");
}

}  // namespace
}  // namespace gemmd::client
