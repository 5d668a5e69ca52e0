#include "client/weights/onnx/onnx_layers.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/weights/onnx/onnx.h"
#include "client/weights/weight_form.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/testing/weight_bytes.h"
#include "tests/client/weights/expected_matrix.h"

namespace gemmd::client {
namespace {

using ::gemmd::testing::Little;
using ::gemmd::testing::OnnxBytes;
using ::testing::HasSubstr;

constexpr std::uint64_t kF32 = 1;
constexpr std::uint64_t kU8 = 2;
constexpr std::uint64_t kI8 = 3;
constexpr std::uint64_t kI32 = 6;
constexpr std::uint64_t kF16 = 10;
constexpr std::uint64_t kE4M3 = 17;
constexpr std::uint64_t kU4 = 21;
constexpr std::uint64_t kI4 = 22;
constexpr std::uint64_t kE2M1 = 23;
constexpr std::uint64_t kE8M0 = 24;
constexpr std::uint64_t kU2 = 25;
constexpr std::uint64_t kI2 = 26;

std::vector<WeightTensor> Parsed(const OnnxBytes& model) {
  const auto none = [](const std::string&) { return absl::InvalidArgumentError("no files"); };
  auto tensors = ParseOnnx(Bytes(model.Bytes()), none);
  EXPECT_TRUE(tensors.ok()) << tensors.status();
  return tensors.ok() ? *std::move(tensors) : std::vector<WeightTensor>();
}

// Numbers packed from the lowest bits on, each `line` of them in whole bytes.
std::string Packed(const std::vector<int>& numbers, int bits, std::size_t line) {
  std::string bytes;
  for (std::size_t begin = 0; begin < numbers.size(); begin += line) {
    int filled = 8;
    for (std::size_t i = begin; i < begin + line && i < numbers.size(); ++i) {
      if (filled == 8) {
        bytes += '\0';
        filled = 0;
      }
      const int code = numbers[i] & ((1 << bits) - 1);
      bytes.back() = static_cast<char>(bytes.back() | code << filled);
      filled += bits;
    }
  }
  return bytes;
}

std::string Floats(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

class Random {
 public:
  std::vector<int> Numbers(std::uint64_t count, int lowest, int highest) {
    std::vector<int> numbers;
    for (std::uint64_t i = 0; i < count; ++i) {
      numbers.push_back(lowest +
                        static_cast<int>(random_() % static_cast<unsigned>(highest - lowest + 1)));
    }
    return numbers;
  }
  std::vector<float> Scales(std::uint64_t count) {
    std::vector<float> scales;
    for (const int each : Numbers(count, -1000, 1000)) {
      scales.push_back(static_cast<float>(each) / 512.0F);
    }
    return scales;
  }

 private:
  std::mt19937 random_{7};
};

std::string NBitsAttributes(std::uint64_t n, std::uint64_t k, int bits, std::uint64_t size) {
  return OnnxBytes::Integer("K", static_cast<std::int64_t>(k)) +
         OnnxBytes::Integer("N", static_cast<std::int64_t>(n)) + OnnxBytes::Integer("bits", bits) +
         OnnxBytes::Integer("block_size", static_cast<std::int64_t>(size));
}

void ExpectOne(const OnnxBytes& model, const std::string& format, const Value& value) {
  const auto tensors = Parsed(model);
  ASSERT_EQ(tensors.size(), 1U);
  EXPECT_EQ(tensors[0].name, "b");
  ExpectMatrix(tensors[0], format, value);
}

void ExpectNBits(std::uint64_t n, std::uint64_t k, int bits, std::uint64_t size, bool has_zeros,
                 bool is_flat, const std::string& format) {
  Random random;
  const std::uint64_t blocks = (k + size - 1) / size;
  const int highest = (1 << bits) - 1;
  const auto codes = random.Numbers(n * blocks * size, 0, highest);
  const auto zeros = random.Numbers(n * blocks, 0, highest);
  const auto scales = random.Scales(n * blocks);
  const std::string packed_zeros = Packed(zeros, bits, blocks);
  const auto shape = [&](std::uint64_t columns) {
    return is_flat ? std::vector<std::uint64_t>{n * columns}
                   : std::vector<std::uint64_t>{n, columns};
  };
  OnnxBytes model;
  model
      .Tensor(OnnxBytes::Raw("b", kU8, {n, blocks, size * static_cast<std::uint64_t>(bits) / 8},
                             Packed(codes, bits, size)))
      .Tensor(OnnxBytes::Raw("s", kF32, shape(blocks), Floats(scales)));
  std::vector<std::string> inputs = {"x", "b", "s"};
  if (has_zeros) {
    model.Tensor(OnnxBytes::Raw("z", kU8, shape(packed_zeros.size() / n), packed_zeros));
    inputs.push_back("z");
  }
  model.AddNode(OnnxBytes::Node("MatMulNBits", inputs, "y", NBitsAttributes(n, k, bits, size)));
  SCOPED_TRACE(absl::StrCat(n, " x ", k, ", ", bits, " bits, blocks of ", size));
  ExpectOne(model, format, [&](std::uint64_t line, std::uint64_t at) {
    const std::uint64_t block = line * blocks + at / size;
    const int zero = has_zeros ? zeros[block] : 1 << (bits - 1);
    return double{scales[block]} * (codes[line * blocks * size + at] - zero);
  });
}

TEST(OnnxLayersTest, MatMulNBitsHasItsValues) {
  for (const bool is_flat : {false, true}) {
    for (const std::uint64_t k : {96, 97, 256}) {
      ExpectNBits(5, k, 4, 32, false, is_flat, "int4-g32-f32");
      ExpectNBits(5, k, 4, 32, true, is_flat, "int4-g32-f32-zp");
      ExpectNBits(5, k, 2, 64, false, is_flat, "int4-g64-f32-zp");
      ExpectNBits(5, k, 2, 16, true, is_flat, "int4-g16-f32-zp");
      ExpectNBits(5, k, 8, 16, false, is_flat, "int8-g16");
      ExpectNBits(5, k, 8, 64, true, is_flat, "uint8-g64-zp");
    }
    ExpectNBits(3, 600, 4, 256, true, is_flat, "int4-g128-f32-zp");
    ExpectNBits(3, 600, 8, 256, false, is_flat, "int8-g128");
    ExpectNBits(3, 100, 8, 128, false, is_flat, "int8-row");
    ExpectNBits(1, 1, 4, 16, true, is_flat, "int4-g16-f32-zp");
  }
}

// A model of 2 x 32 codes of 4 bits, which is good until a test changes it.
struct NBits {
  std::string b = OnnxBytes::Raw("b", kU8, {2, 1, 16}, std::string(32, '\x12'));
  std::string s = OnnxBytes::Raw("s", kF32, {2, 1}, Floats({1, 2}));
  std::vector<std::string> inputs = {"x", "b", "s"};
  std::vector<std::string> others;
  std::string attributes = NBitsAttributes(2, 32, 4, 32);

  OnnxBytes Model() const {
    OnnxBytes model;
    model.Tensor(b).Tensor(s).AddNode(OnnxBytes::Node("MatMulNBits", inputs, "y", attributes));
    for (const std::string& each : others) model.Tensor(each);
    return model;
  }
  std::string Why() const {
    for (const WeightTensor& tensor : Parsed(Model())) {
      if (tensor.name == "b") return std::string(FormOf(tensor).status().message());
    }
    return "no b";
  }
};

TEST(OnnxLayersTest, MatMulNBitsWithoutAFormSaysWhy) {
  EXPECT_EQ(NBits().Why(), "");
  NBits each;
  each.attributes = NBitsAttributes(2, 32, 3, 32);
  EXPECT_EQ(each.Why(),
            "MatMulNBits has no form here: its codes have 3 bits, and 2, 4 and 8 are read");
  each.attributes = NBitsAttributes(2, 32, 4, 24);
  EXPECT_THAT(each.Why(),
              HasSubstr("its block_size is 24; MatMulNBits has powers of two from 16 on"));
  each.attributes = NBitsAttributes(2, 32, 4, 0);
  EXPECT_THAT(each.Why(), HasSubstr("its block_size is 0"));
  each.attributes = NBitsAttributes(2, 32, 4, std::uint64_t{1} << 63);
  EXPECT_THAT(each.Why(), HasSubstr("its block_size is -9223372036854775808"));
  each.attributes = "";
  EXPECT_THAT(each.Why(), HasSubstr("its node has N 0 and K 0; a dimension is 1 to"));
  each.attributes = NBitsAttributes(~std::uint64_t{0}, 32, 4, 32);
  EXPECT_THAT(each.Why(), HasSubstr("its node has N -1 and K 32"));
  each.attributes = NBitsAttributes(2, 32, 4, 32) + OnnxBytes::Integer("weight_prepacked", 1);
  EXPECT_THAT(each.Why(),
              HasSubstr("its codes are in an order of one device, weight_prepacked 1; a model"));
  each.attributes = NBitsAttributes(2, 64, 4, 32);
  EXPECT_THAT(each.Why(), HasSubstr("its B is U8 of [2, 1, 16]; it must be U8 of [2, 2, 16]"));
  each = NBits();
  each.s = OnnxBytes::Raw("s", kF32, {3}, Floats({1, 2, 3}));
  EXPECT_THAT(each.Why(), HasSubstr("its scales is F32 of [3]; it must be F32 of [2]"));
  each.s = OnnxBytes::Raw("s", kE8M0, {2, 1}, "ab");
  EXPECT_THAT(each.Why(), HasSubstr("its scales is F8_E8M0 of [2, 1]; it must be F32 of [2, 1]"));
  each.inputs[2] = "computed";
  EXPECT_THAT(each.Why(), HasSubstr("its scales are computed by the graph; initializers are read"));
  each = NBits();
  each.s = OnnxBytes::Header("s", kF32, {2, 1}) + OnnxBytes::Field(4, "abcd") +
           OnnxBytes::Field(4, "abcd");
  EXPECT_THAT(each.Why(), HasSubstr("its scales are not read: its values are not packed"));
}

TEST(OnnxLayersTest, ZeroPointsOfMatMulNBitsAreWholeNumbers) {
  NBits each;
  each.inputs.emplace_back("z");
  EXPECT_THAT(each.Why(), HasSubstr("its zero_points are computed by the graph"));
  each.others = {OnnxBytes::Raw("z", kF32, {2, 1}, Floats({8, 8.5}))};
  EXPECT_THAT(each.Why(), HasSubstr("its zero_points are F32, which need not be whole numbers; "
                                    "packed ones of U8 are read"));
  each.others = {OnnxBytes::Raw("z", kU8, {2, 2}, "abcd")};
  EXPECT_THAT(each.Why(), HasSubstr("its zero_points is U8 of [2, 2]; it must be U8 of [2, 1]"));
  each.others = {OnnxBytes::Raw("z", kU8, {2}, "ab")};
  EXPECT_EQ(each.Why(), "");
}

TEST(OnnxLayersTest, GroupsOfMatMulNBitsMayLieApart) {
  NBits each;
  each.b = OnnxBytes::Raw("b", kU8, {1, 2, 16}, std::string(32, '\x12'));
  each.s = OnnxBytes::Raw("s", kF32, {1, 2}, Floats({1, 2}));
  each.attributes = NBitsAttributes(1, 40, 4, 32);
  each.inputs = {"x", "b", "s", "", "g"};
  const auto with = [&each](std::uint64_t count, std::uint64_t at, std::uint64_t group) {
    std::string bytes;
    for (std::uint64_t i = 0; i < count; ++i) bytes += Little(i == at ? group : i / 32, 4);
    each.others = {OnnxBytes::Raw("g", kI32, {count}, bytes)};
    return each.Why();
  };
  EXPECT_EQ(with(40, 0, 0), "");
  EXPECT_EQ(with(64, 0, 0), "");
  EXPECT_THAT(with(40, 39, 0), HasSubstr("its g_idx has the group 0 for k = 39 and 32 before; each "
                                         "group has 32, the last one the rest of K"));
  EXPECT_THAT(with(41, 0, 0), HasSubstr("its g_idx is I32 of [41]; it must be I32 of [40]"));
  each.others.clear();
  EXPECT_THAT(each.Why(), HasSubstr("its g_idx are computed by the graph"));
}

TEST(OnnxLayersTest, TwoNodesOfTheSameCodesMustAgree) {
  const auto tensors_of = [](const std::string& attributes) {
    OnnxBytes model = NBits().Model();
    model.AddNode(OnnxBytes::Node("MatMulNBits", {"q", "b", "s"}, "r", attributes));
    return Parsed(model);
  };
  const auto same = tensors_of(NBits().attributes);
  ASSERT_EQ(same.size(), 1U);
  EXPECT_TRUE(FormOf(same[0]).ok());
  const auto other = tensors_of(NBitsAttributes(2, 32, 8, 16));
  ASSERT_EQ(other.size(), 1U);
  EXPECT_THAT(std::string(FormOf(other[0]).status().message()),
              HasSubstr("two nodes read its codes in different ways"));
}

TEST(OnnxLayersTest, LayersMayShareScales) {
  OnnxBytes model = NBits().Model();
  model.Tensor(OnnxBytes::Raw("c", kU8, {2, 1, 16}, std::string(32, '\x34')))
      .AddNode(OnnxBytes::Node("MatMulNBits", {"q", "c", "s"}, "r", NBits().attributes));
  const auto tensors = Parsed(model);
  ASSERT_EQ(tensors.size(), 2U);
  EXPECT_TRUE(FormOf(tensors[0]).ok()) << FormOf(tensors[0]).status();
  EXPECT_TRUE(FormOf(tensors[1]).ok()) << FormOf(tensors[1]).status();
}

TEST(OnnxLayersTest, NodesOfABranchReadTheInitializersAroundIt) {
  OnnxBytes model;
  const std::string node = OnnxBytes::Node("MatMulNBits", {"x", "b", "s"}, "y", NBits().attributes);
  const std::string branch =
      OnnxBytes::Field(1, "then_branch") + OnnxBytes::Field(6, OnnxBytes::Field(1, node));
  model.Tensor(NBits().b).Tensor(NBits().s).AddNode(
      OnnxBytes::Node("If", {"c"}, "y", OnnxBytes::Field(5, branch)));
  const auto tensors = Parsed(model);
  ASSERT_EQ(tensors.size(), 1U);
  EXPECT_EQ(tensors[0].type, "MatMulNBits");
}

// DequantizeLinear of codes that are [rows, columns].
struct Linear {
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  int axis = 1;
  std::uint64_t block = 0;  // 0: one scale for each of axis
  bool is_whole = false;    // one scale

  std::vector<std::uint64_t> ScaleShape() const {
    if (is_whole) return {};
    if (block == 0) return {axis == 0 ? rows : columns};
    return axis == 0 ? std::vector<std::uint64_t>{(rows + block - 1) / block, columns}
                     : std::vector<std::uint64_t>{rows, (columns + block - 1) / block};
  }
  std::uint64_t Count() const {
    std::uint64_t count = 1;
    for (const std::uint64_t each : ScaleShape()) count *= each;
    return count;
  }
  std::uint64_t IndexOf(std::uint64_t row, std::uint64_t column) const {
    if (is_whole) return 0;
    if (block == 0) return axis == 0 ? row : column;
    if (axis == 0) return row / block * columns + column;
    return row * ScaleShape()[1] + column / block;
  }
};

void ExpectLinear(const Linear& how, std::uint64_t type, int bits, int lowest, bool has_zeros,
                  const std::string& product, int k_axis, const std::string& format) {
  Random random;
  const int highest = lowest + (1 << bits) - 1;
  const auto codes = random.Numbers(how.rows * how.columns, lowest, highest);
  const auto zeros = random.Numbers(how.Count(), lowest, highest);
  const auto scales = random.Scales(how.Count());
  OnnxBytes model;
  model
      .Tensor(OnnxBytes::Raw("b", type, {how.rows, how.columns}, Packed(codes, bits, codes.size())))
      .Tensor(OnnxBytes::Raw("s", kF32, how.ScaleShape(), Floats(scales)));
  std::vector<std::string> inputs = {"b", "s"};
  if (has_zeros) {
    model.Tensor(OnnxBytes::Raw("z", type, how.ScaleShape(), Packed(zeros, bits, zeros.size())));
    inputs.push_back("z");
  }
  std::string attributes = OnnxBytes::Integer("axis", how.axis == 0 ? -2 : 1);
  if (how.block != 0) {
    attributes += OnnxBytes::Integer("block_size", static_cast<std::int64_t>(how.block));
  }
  model.AddNode(OnnxBytes::Node("DequantizeLinear", inputs, "r", attributes));
  if (product == "Transpose") {
    model.AddNode(OnnxBytes::Node("Transpose", {"r"}, "t"))
        .AddNode(OnnxBytes::Node("MatMul", {"x", "t"}, "y"));
  } else if (!product.empty()) {
    model.AddNode(OnnxBytes::Node(product, {"x", "r"}, "y",
                                  OnnxBytes::Integer("transB", k_axis == 1 ? 1 : 0)));
  }
  SCOPED_TRACE(absl::StrCat(format, " of ", how.rows, " x ", how.columns, ", axis ", how.axis));
  ExpectOne(model, format, [&](std::uint64_t line, std::uint64_t k) {
    const std::uint64_t row = k_axis == 0 ? k : line;
    const std::uint64_t column = k_axis == 0 ? line : k;
    const std::uint64_t at = how.IndexOf(row, column);
    const int zero = has_zeros ? zeros[at] : 0;
    return double{scales[at]} * (codes[row * how.columns + column] - zero);
  });
}

TEST(OnnxLayersTest, BlocksOfDequantizeLinearRunAlongK) {
  for (const std::uint64_t k : {64, 50}) {
    const Linear down{k, 7, 0, 16, false};
    const Linear right{7, k, 1, 32, false};
    ExpectLinear(down, kI4, 4, -8, false, "MatMul", 0, "int4-g16-f32");
    ExpectLinear(down, kU4, 4, 0, true, "MatMul", 0, "int4-g16-f32-zp");
    ExpectLinear(right, kI4, 4, -8, true, "Gemm", 1, "int4-g32-f32-zp");
    ExpectLinear(right, kU4, 4, 0, false, "", 1, "int4-g32-f32-zp");
    ExpectLinear(right, kI8, 8, -128, true, "Transpose", 1, "int8-g32-zp");
    ExpectLinear(down, kU8, 8, 0, true, "Gemm", 0, "uint8-g16-zp");
    ExpectLinear(down, kI2, 2, -2, true, "MatMul", 0, "int4-g16-f32-zp");
    ExpectLinear(right, kI2, 2, -2, false, "Gemm", 1, "int4-g32-f32-zp");
    ExpectLinear(down, kU2, 2, 0, false, "MatMul", 0, "int4-g16-f32-zp");
  }
}

TEST(OnnxLayersTest, DequantizeLinearHasAScaleForALineOrAll) {
  ExpectLinear({40, 6, 1, 0, false}, kI8, 8, -128, true, "MatMul", 0, "int8-row-zp");
  ExpectLinear({6, 40, 0, 0, false}, kI8, 8, -128, false, "Gemm", 1, "int8-row");
  ExpectLinear({6, 40, 0, 0, false}, kU8, 8, 0, true, "", 1, "uint8-row-zp");
  ExpectLinear({40, 6, 1, 0, true}, kU8, 8, 0, true, "MatMul", 0, "uint8-tensor-zp");
  ExpectLinear({6, 40, 1, 0, true}, kI8, 8, -128, false, "Transpose", 1, "int8-tensor");
  ExpectLinear({6, 40, 1, 0, true}, kI8, 8, -128, false, "", 1, "int8-tensor");
  ExpectLinear({140, 6, 1, 0, false}, kI4, 4, -8, false, "MatMul", 0, "int4-g128-f32");
}

TEST(OnnxLayersTest, FloatsOfDequantizeLinearHaveForms) {
  const auto form = [](std::uint64_t type, std::uint64_t columns, const std::string& codes,
                       std::uint64_t scale_type, const std::vector<std::uint64_t>& scale_shape,
                       const std::string& scales, std::int64_t block) {
    OnnxBytes model;
    model.Tensor(OnnxBytes::Raw("b", type, {2, columns}, codes))
        .Tensor(OnnxBytes::Raw("s", scale_type, scale_shape, scales))
        .AddNode(OnnxBytes::Node(
            "DequantizeLinear", {"b", "s"}, "r",
            OnnxBytes::Integer("axis", 1) + OnnxBytes::Integer("block_size", block)));
    const auto found = FormOf(Parsed(model)[0]);
    return found.ok() ? found->name : std::string(found.status().message());
  };
  EXPECT_EQ(form(kE2M1, 32, std::string(32, '\x12'), kE8M0, {2, 1}, "\x7f\x7f", 32), "mxfp4");
  EXPECT_EQ(form(kE4M3, 32, std::string(64, '\x12'), kE8M0, {2, 1}, "\x7f\x7f", 32), "mxfp8-e4m3");
  EXPECT_EQ(form(kE4M3, 32, std::string(64, '\x12'), kF32, {}, "abcd", 0), "fp8-e4m3-tensor");
  EXPECT_EQ(form(kE4M3, 256, std::string(512, '\x12'), kF32, {2, 2}, std::string(16, '1'), 128),
            "fp8-e4m3-1x128");
}

// Why the codes "b" of such a node have no form.
std::string WhyLinear(const std::string& b, const std::string& s, const std::string& attributes,
                      const std::string& z = "", const std::string& more_nodes = "") {
  OnnxBytes model;
  model.Tensor(b).Tensor(s);
  if (!z.empty()) model.Tensor(z);
  model.AddNode(OnnxBytes::Node(
      "DequantizeLinear",
      z.empty() ? std::vector<std::string>{"b", "s"} : std::vector<std::string>{"b", "s", "z"}, "r",
      attributes));
  model.GraphField(more_nodes);
  for (const WeightTensor& tensor : Parsed(model)) {
    if (tensor.name == "b") return std::string(FormOf(tensor).status().message());
  }
  return "no b";
}

TEST(OnnxLayersTest, DequantizeLinearWithoutAFormSaysWhy) {
  const std::string b = OnnxBytes::Raw("b", kI8, {2, 4}, "abcdefgh");
  const auto scales = [](const std::vector<std::uint64_t>& shape) {
    std::uint64_t count = 1;
    for (const std::uint64_t each : shape) count *= each;
    return OnnxBytes::Raw("s", kF32, shape, Floats(std::vector<float>(count, 1)));
  };
  const auto integer = [](const char* name, std::int64_t value) {
    return OnnxBytes::Integer(name, value);
  };
  EXPECT_EQ(WhyLinear(b, scales({4}), ""), "");
  EXPECT_EQ(WhyLinear(b, scales({3}), ""),
            "DequantizeLinear has no form here: its scales have the shape [3]; it must be [] or "
            "[4], of axis 1");
  EXPECT_THAT(WhyLinear(b, scales({2, 2}), integer("block_size", 3)),
              HasSubstr("no form has that"));
  EXPECT_THAT(WhyLinear(b, scales({2, 3}), integer("block_size", 2)),
              HasSubstr("its scales have the shape [2, 3]; by blocks of 2 along axis 1 it must be "
                        "[2, 2]"));
  EXPECT_THAT(WhyLinear(b, scales({2, 1}), integer("block_size", -1)),
              HasSubstr("its block_size is -1"));
  EXPECT_EQ(WhyLinear(b, scales({2, 1}), integer("block_size", INT64_MAX)), "");
  EXPECT_THAT(WhyLinear(b, scales({4}), integer("axis", 2)),
              HasSubstr("its axis is 2; a matrix has -2 to 1"));
  EXPECT_THAT(WhyLinear(b, scales({4}), integer("axis", INT64_MIN)), HasSubstr("its axis is -92"));
  EXPECT_THAT(WhyLinear(b, scales({4}), "", OnnxBytes::Raw("z", kU8, {4}, "abcd")),
              HasSubstr("its zero points is U8 of [4]; it must be I8 of [4]"));
  EXPECT_THAT(WhyLinear(b, OnnxBytes::Raw("s", kI8, {4}, "abcd"), ""),
              HasSubstr("its scales are I8; F32, F16, BF16 and F8_E8M0 are read"));
  EXPECT_THAT(WhyLinear(OnnxBytes::Raw("b", kI8, {1, 2, 4}, "abcdefgh"), scales({}), ""),
              HasSubstr("its shape is [1, 2, 4]; by scales matrices alone are read"));
  EXPECT_THAT(WhyLinear(OnnxBytes::Raw("b", kI8, {0, 4}, ""), scales({}), ""),
              HasSubstr("its shape is [0, 4]; by scales"));
  EXPECT_THAT(WhyLinear(OnnxBytes::Raw("b", kE4M3, {1, 1}, "a"), scales({}), "",
                        OnnxBytes::Raw("z", kE4M3, {}, "a")),
              HasSubstr("its zero points are floats other than 0"));
  EXPECT_EQ(WhyLinear(OnnxBytes::Raw("b", kE4M3, {1, 1}, "a"), scales({}), "",
                      OnnxBytes::Raw("z", kE4M3, {}, std::string(1, '\0'))),
            "");
  EXPECT_THAT(
      WhyLinear(b, scales({2}), integer("axis", 0), "",
                OnnxBytes::Field(1, OnnxBytes::Node("MatMul", {"x", "r"}, "y"))),
      HasSubstr("its scales run along axis 0 of [2, 4], and the product sums along axis 0"));
}

TEST(OnnxLayersTest, NodesOfIntegersReadTheirScales) {
  const std::string f = Floats({0.5F, 2});
  for (const auto& [node, inputs] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"QLinearMatMul", {"x", "xs", "xz", "b", "s", "z", "ys", "yz"}},
           {"QGemm", {"x", "xs", "xz", "b", "s", "z"}},
           {"DynamicQuantizeMatMul", {"x", "b", "s", "z"}},
           {"MatMulIntegerToFloat", {"x", "b", "xs", "s", "xz", "z"}}}) {
    OnnxBytes model;
    model.Tensor(OnnxBytes::Raw("b", kI8, {3, 2}, "abcdef"))
        .Tensor(OnnxBytes::Raw("s", kF32, {2}, f))
        .Tensor(OnnxBytes::Raw("z", kI8, {2}, "AB"))
        .AddNode(OnnxBytes::Node(node, inputs, "y"));
    ExpectOne(model, "int8-row-zp", [](std::uint64_t n, std::uint64_t k) {
      return (n == 0 ? 0.5 : 2) * static_cast<double>(32 + 2 * k);
    });
  }
}

TEST(OnnxLayersTest, NamesOfQuantizeDynamicSayWhichScalesAreMeant) {
  OnnxBytes model;
  model.Tensor(OnnxBytes::Raw("w_quantized", kU8, {3, 2}, "abcdef"))
      .Tensor(OnnxBytes::Header("w_scale", kF32, {}) + OnnxBytes::Field(4, Floats({0.5F})))
      .Tensor(OnnxBytes::Header("w_zero_point", kU8, {}) + OnnxBytes::Field(5, "a"))
      .AddNode(OnnxBytes::Node("MatMulInteger", {"x", "w_quantized", "xz", "w_zero_point"}, "y"));
  const auto tensors = Parsed(model);
  ASSERT_EQ(tensors.size(), 1U);
  EXPECT_EQ(tensors[0].name, "w_quantized");
  EXPECT_EQ(tensors[0].type, "MatMulInteger");
  ExpectMatrix(tensors[0], "uint8-tensor-zp", [](std::uint64_t n, std::uint64_t k) {
    return 0.5 * static_cast<double>(n + 2 * k);
  });
}

TEST(OnnxLayersTest, CodesThatNoProductReadsAreNotTakenForNumbers) {
  const auto why = [](const std::string& node, const std::vector<std::string>& inputs) {
    OnnxBytes model;
    model.Tensor(OnnxBytes::Raw("b", kU8, {1, 2, 2}, "abcd"))
        .AddNode(OnnxBytes::Node(node, inputs, "y"));
    return std::string(FormOf(Parsed(model)[0]).status().message());
  };
  EXPECT_EQ(why("QLinearConv", {"x", "xs", "xz", "b"}),
            "QLinearConv has no form here: the node that reads its codes is no product of "
            "matrices; gemm quantize makes int8-row of the f16 or f32 file");
  EXPECT_THAT(why("GatherBlockQuantized", {"b"}), HasSubstr("is no product of matrices"));
  EXPECT_THAT(why("MatMulBnb4", {"x", "b"}), HasSubstr("its codes stand for numbers of a table"));
  EXPECT_EQ(why("MatMulInteger", {"x", "b", "xz", "z"}),
            "MatMulInteger has no form here: its scales are computed by the graph; those of "
            "NAME_quantized are read in NAME_scale");
  EXPECT_EQ(why("MatMulInteger", {"x", "b", "xz"}), "");
  EXPECT_EQ(why("Reshape", {"b"}), "");
}

TEST(OnnxLayersTest, ScalesOfF16Stay) {
  NBits each;
  each.s = OnnxBytes::Raw("s", kF16, {2, 1}, Little(0x3c00, 2) + Little(0xc000, 2));
  ExpectOne(each.Model(), "int4-g32-f16", [](std::uint64_t n, std::uint64_t k) {
    return (n == 0 ? 1 : -2) * (k % 2 == 0 ? -6.0 : -7.0);
  });
}

}  // namespace
}  // namespace gemmd::client
