#include "client/weights/layers/bitsandbytes_layers.h"

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/numbers/quant/elements.h"
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

using Shape = std::vector<std::uint64_t>;

std::string Floats(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(&bytes[0], values.data(), bytes.size());
  return bytes;
}

std::vector<float> RandomFloats(std::uint64_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values;
  while (values.size() < count) {
    values.push_back(static_cast<float>(random() % 100000) / 7777.0F - 5);
  }
  return values;
}

// A matrix of 4 bits, as bitsandbytes saves it.
struct Saved {
  std::uint64_t n;
  std::uint64_t k;
  std::uint64_t block;
  std::string kind = "nf4";
  bool is_nested = false;

  DataType element() const { return kind == "nf4" ? DataType::kNf4 : DataType::kBnbFp4; }
  std::uint64_t blocks() const { return (n * k + block - 1) / block; }
  std::uint64_t runs() const { return (blocks() + 255) / 256; }
  std::string codes() const { return RandomBytes((n * k + 1) / 2, 1); }
  std::string scale_codes() const { return RandomBytes(blocks(), 2); }
  std::vector<float> scales() const { return RandomFloats(blocks(), 3); }
  std::vector<float> map() const { return RandomFloats(256, 4); }
  std::vector<float> nested() const { return RandomFloats(runs(), 5); }
  static float offset() { return 0.052513886243104935F; }

  std::string State() const {
    std::string text = absl::StrCat(R"({"quant_type": ")", kind, R"(", "blocksize": )", block,
                                    R"(, "dtype": "float16", "shape": [)", n, ", ", k, "]");
    if (is_nested) {
      absl::StrAppend(&text, R"(, "nested_blocksize": 256, "nested_dtype": "float32", )",
                      R"("nested_offset": 0.052513886243104935)");
    }
    return text + "}";
  }

  std::string Table() const {
    std::vector<float> table;
    for (std::uint32_t code = 0; code < 16; ++code) {
      table.push_back(static_cast<float>(DecodeElement(element(), code)));
    }
    return Floats(table);
  }

  std::vector<WeightTensor> Tensors() const {
    const std::string state = State();
    std::vector<WeightTensor> tensors = {
        Tensor("l.weight", "U8", {(n * k + 1) / 2, 1}, codes()),
        Tensor("l.weight.quant_map", "F32", {16}, Table()),
        Tensor("l.weight.quant_state.bitsandbytes__" + kind, "U8", {state.size()}, state)};
    if (!is_nested) {
      tensors.push_back(Tensor("l.weight.absmax", "F32", {blocks()}, Floats(scales())));
      return tensors;
    }
    tensors.push_back(Tensor("l.weight.absmax", "U8", {blocks()}, scale_codes()));
    tensors.push_back(Tensor("l.weight.nested_quant_map", "F32", {256}, Floats(map())));
    tensors.push_back(Tensor("l.weight.nested_absmax", "F32", {runs()}, Floats(nested())));
    return tensors;
  }

  float ScaleAt(std::uint64_t at) const {
    if (!is_nested) return scales()[at / block];
    const auto code = static_cast<std::uint8_t>(scale_codes()[at / block]);
    const float product = map()[code] * nested()[at / block / 256];
    return product + offset();
  }
};

void ExpectForm(const Saved& saved, const std::string& format) {
  const std::vector<WeightTensor> made = CombineLayers(saved.Tensors(), {});
  ASSERT_EQ(made.size(), 1U);
  EXPECT_EQ(made[0].name, "l.weight");
  EXPECT_EQ(made[0].type, "bitsandbytes " + saved.kind);
  EXPECT_EQ(made[0].shape, (Shape{saved.n, saved.k}));
  const std::string codes = saved.codes();
  std::vector<float> scales;
  for (std::uint64_t i = 0; i < saved.blocks(); ++i) {
    scales.push_back(saved.ScaleAt(i * saved.block));
  }
  ExpectMatrix(made[0], format, [&](std::uint64_t n, std::uint64_t k) {
    const std::uint64_t at = n * saved.k + k;
    const auto byte = static_cast<std::uint8_t>(codes[at / 2]);
    const std::uint32_t code = at % 2 == 0 ? byte >> 4U : byte & 15U;
    return DecodeElement(saved.element(), code) * static_cast<double>(scales[at / saved.block]);
  });
}

TEST(BitsandbytesLayersTest, FourBitsHaveScalesOfRunsOfTheMatrix) {
  for (const bool is_nested : {false, true}) {
    for (const char* kind : {"nf4", "fp4"}) {
      const std::string name = kind == std::string("nf4") ? "nf4" : "bnb-fp4";
      ExpectForm({6, 128, 64, kind, is_nested}, name + "-g64-f32");
      ExpectForm({4, 96, 32, kind, is_nested}, name + "-g32-f32");
      ExpectForm({3, 512, 256, kind, is_nested}, name + "-g128-f32");
      ExpectForm({40, 1024, 32, kind, is_nested}, name + "-g32-f32");  // several runs of scales
      // Blocks that run on from row to row.
      ExpectForm({6, 96, 64, kind, is_nested}, name + "-g32-f32");
      ExpectForm({5, 80, 64, kind, is_nested}, name + "-g16-f32");
      ExpectForm({3, 192, 4096, kind, is_nested}, name + "-g64-f32");
      // One row holds each of its blocks, however long.
      ExpectForm({1, 77, 64, kind, is_nested}, name + "-g64-f32");
    }
  }
}

// bnb_4bit_quant_storage: the same bytes.
TEST(BitsandbytesLayersTest, CodesMayBeSavedAsAnotherType) {
  const Saved saved = {4, 64, 64};
  std::vector<WeightTensor> tensors = saved.Tensors();
  tensors[0].type = "BF16";
  tensors[0].shape = {64, 1};
  const std::vector<WeightTensor> made = CombineLayers(tensors, {});
  ASSERT_EQ(made.size(), 1U);
  EXPECT_EQ(FormOf(made[0])->name, "nf4-g64-f32");
}

std::string Why(std::vector<WeightTensor> tensors) {
  const std::vector<WeightTensor> made = CombineLayers(std::move(tensors), {});
  for (const WeightTensor& each : made) {
    if (each.name != "l.weight") continue;
    const auto form = FormOf(each);
    return std::string(form.ok() ? OperandOf(each).status().message() : form.status().message());
  }
  return "there is no l.weight";
}

TEST(BitsandbytesLayersTest, FourBitsWithoutAFormSayWhy) {
  const Saved saved = {6, 128, 64};
  const Saved nested = {6, 128, 64, "fp4", true};
  const auto with_state = [](const Saved& of, const std::string& text) {
    std::vector<WeightTensor> tensors = of.Tensors();
    tensors[2].bytes = Bytes(std::string(text));
    tensors[2].shape = {text.size()};
    return Why(tensors);
  };
  const auto with = [](const Saved& of, std::size_t index, const WeightTensor& tensor) {
    std::vector<WeightTensor> tensors = of.Tensors();
    tensors[index] = tensor;
    return Why(tensors);
  };
  const auto state = [](const std::string& type, const std::string& block,
                        const std::string& rest) {
    return absl::StrCat(R"({"quant_type": ")", type, R"(", "blocksize": )", block, rest, "}");
  };
  const std::string shape = R"(, "shape": [6, 128])";
  const auto refused = [&](const std::string& text) { return with_state(saved, text); };
  EXPECT_THAT(refused("{"), HasSubstr("its quant_state is no JSON object"));
  EXPECT_THAT(refused("[1]"), HasSubstr("its quant_state is no JSON object"));
  EXPECT_THAT(refused(std::string(4097, ' ')), HasSubstr("must be U8 of at most 4096"));
  EXPECT_THAT(refused(state("fp4", "64", shape)),
              HasSubstr(R"(quant_type is "\"fp4\""; it must be "nf4")"));
  for (const char* block :
       {"0", "-64", "64.5", "null", "\"64\"", "1048577", "18446744073709551616"}) {
    EXPECT_THAT(refused(state("nf4", block, shape)),
                HasSubstr("it must be a whole number from 1 to 1048576"))
        << block;
  }
  EXPECT_THAT(refused(state("nf4", "64", "")), HasSubstr("it must be N and K: stacks are read"));
  EXPECT_THAT(refused(state("nf4", "64", R"(, "shape": [2, 3, 128])")),
              HasSubstr("it must be N and K: stacks are read"));
  EXPECT_THAT(refused(state("nf4", "64", R"(, "shape": [9223372036854775808, 128])")),
              HasSubstr("shape is \"9223372036854775808\"; it must be a whole number from 1 to"));
  EXPECT_THAT(refused(state("nf4", "64", R"(, "shape": [5, 128])")),
              HasSubstr("its codes have 384 bytes; 5 x 128 take 320"));
  EXPECT_THAT(refused(state("nf4", "32", shape)),
              HasSubstr("its absmax is F32 of [12]; it must be F32 of [24]"));
  EXPECT_THAT(refused(state("nf4", "64", shape + R"(, "nested_blocksize": 256)")),
              HasSubstr("nested_offset is \"null\"; it must be a finite number of f32"));
  EXPECT_THAT(refused(state("nf4", "64", shape + R"(, "nested_blocksize": 256,
                            "nested_offset": 1e300)")),
              HasSubstr("it must be a finite number of f32"));
  EXPECT_THAT(refused(state("nf4", "64", shape + R"(, "nested_blocksize": 256,
                            "nested_offset": 0.5)")),
              HasSubstr("its absmax is F32 of [12]; it must be U8 of [12]"));
  EXPECT_THAT(with(nested, 5, Tensor("l.weight.nested_absmax", "F32", {2}, "01234567")),
              HasSubstr("its nested_absmax is F32 of [2]; it must be F32 of [1]"));
  EXPECT_THAT(with(nested, 4, Tensor("other", "F32", {1}, "0123")),
              HasSubstr("its nested_quant_map is missing"));
  EXPECT_THAT(with(saved, 1, Tensor("l.weight.quant_map", "F32", {16}, nested.Table())),
              HasSubstr("its quant_map is not the table of nf4 that bitsandbytes has"));
  EXPECT_THAT(Why(Saved{5, 20, 64}.Tensors()),
              HasSubstr("it has a scale of f32 for each 1 x 4 nf4, and no form has that; "
                        "nf4-g128-f16 is closest"));
  for (const std::uint64_t k : {1, 33}) {
    EXPECT_THAT(Why(Saved{3, k, 64}.Tensors()),
                HasSubstr(absl::StrCat("its K is ", k,
                                       ", so that rows begin within a byte; K must "
                                       "be even")));
  }
  EXPECT_THAT(refused(std::string(2000, '[') + std::string(2000, ']')),
              HasSubstr("its quant_state is no JSON object"));
  std::vector<float> scales = saved.scales();
  scales[3] = HUGE_VALF;
  EXPECT_THAT(with(saved, 3, Tensor("l.weight.absmax", "F32", {12}, Floats(scales))),
              HasSubstr("the block of row 1, columns 64 to 127 has no form in nf4-g64-f32: its "
                        "scale is inf; it must be finite"));
  std::vector<WeightTensor> without_state = saved.Tensors();
  without_state.erase(without_state.begin() + 2);
  EXPECT_THAT(Why(without_state), HasSubstr("its quant_state, which says which, is missing"));
}

TEST(BitsandbytesLayersTest, Int8HasScalesOfRows) {
  constexpr std::uint64_t kN = 5;
  constexpr std::uint64_t kK = 33;
  const std::string codes = RandomBytes(kN * kK, 7);
  const std::vector<float> scales = RandomFloats(kN, 8);
  const std::vector<WeightTensor> tensors = {
      Tensor("l.weight", "I8", {kN, kK}, codes), Tensor("l.SCB", "F32", {kN}, Floats(scales)),
      Tensor("l.weight_format", "U8", {}, std::string(1, '\0'))};
  const std::vector<WeightTensor> made = CombineLayers(tensors, {});
  ASSERT_EQ(made.size(), 1U);
  EXPECT_EQ(made[0].type, "bitsandbytes int8");
  ExpectMatrix(made[0], "int8-row", [&](std::uint64_t n, std::uint64_t k) {
    const float scale = scales[n] * (1 / 127.0F);
    return static_cast<double>(static_cast<std::int8_t>(codes[n * kK + k])) * scale;
  });

  std::vector<WeightTensor> turned = tensors;
  turned[2].bytes = Bytes(std::string(1, '\2'));
  EXPECT_THAT(Why(turned), HasSubstr("its weight_format is not 0"));
  std::vector<WeightTensor> short_of = tensors;
  short_of[1] = Tensor("l.SCB", "F32", {4}, Floats({1, 2, 3, 4}));
  EXPECT_THAT(Why(short_of), HasSubstr("its SCB is F32 of [4]; it must be F32 of [5]"));
  std::vector<WeightTensor> flat = tensors;
  flat[0].shape = {kN * kK};
  EXPECT_THAT(Why(flat), HasSubstr("its codes are I8 of [165]; they must be I8 of [N, K]"));
}

TEST(BitsandbytesLayersTest, NamesOfScalesAreKnown) {
  EXPECT_TRUE(IsNameOfBitsandbytes("a.weight.quant_state.bitsandbytes__nf4"));
  EXPECT_TRUE(IsNameOfBitsandbytes("a.weight.quant_state.bitsandbytes__fp4"));
  EXPECT_TRUE(IsNameOfBitsandbytes("a.SCB"));
  EXPECT_FALSE(IsNameOfBitsandbytes("a.weight.quant_map"));
}

}  // namespace
}  // namespace gemmd::client
