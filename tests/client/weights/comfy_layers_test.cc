#include "client/weights/layers/comfy_layers.h"

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
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

WeightTensor Said(const std::string& text) {
  return Tensor("l.comfy_quant", "U8", {text.size()}, text);
}

std::uint64_t RoundedUp(std::uint64_t size, std::uint64_t to) { return (size + to - 1) / to * to; }

// Where tcgen05 has the scale of a line and block: tiles of 128 x 4, of which line i is in row
// i % 32, at 4 * (i / 32).
std::uint64_t InTiles(std::uint64_t line, std::uint64_t block, std::uint64_t blocks) {
  const std::uint64_t tile = line / 128 * (RoundedUp(blocks, 4) / 4) + block / 4;
  return tile * 512 + line % 32 * 16 + line % 128 / 32 * 4 + block % 4;
}

std::vector<WeightTensor> Nvfp4(std::uint64_t n, std::uint64_t k) {
  const Shape scales = {RoundedUp(n, 128), RoundedUp(k / 16, 4)};
  return {Said("{\"format\": \"nvfp4\"}"),
          Tensor("l.weight", "U8", {n, k / 2}, RandomBytes(n * k / 2, 3)),
          Tensor("l.weight_scale", "F8_E4M3", scales,
                 RandomBytes(scales[0] * scales[1], 4, "\x7f\xff")),
          Tensor("l.weight_scale_2", "F32", {}, Little(BitsOf(0.25F), 4))};
}

WeightTensor Made(const std::vector<WeightTensor>& tensors) {
  for (WeightTensor& each : CombineLayers(tensors, {})) {
    if (each.name == "l.weight") return std::move(each);
  }
  ADD_FAILURE() << "there is no l.weight";
  return {};
}

double ValueOf(DataType type, absl::string_view codes, std::uint64_t at) {
  return DecodeElement(type, static_cast<std::uint8_t>(codes[at]));
}

TEST(ComfyLayersTest, Nvfp4HasTilesAndItsFirstCodesHigh) {
  for (const auto& [n, k] :
       {std::pair<std::uint64_t, std::uint64_t>{128, 256}, {160, 80}, {16, 16}}) {
    const std::vector<WeightTensor> tensors = Nvfp4(n, k);
    const absl::string_view codes = tensors[1].bytes.view();
    const absl::string_view scales = tensors[2].bytes.view();
    ExpectMatrix(Made(tensors), "nvfp4", [&, width = k](std::uint64_t line, std::uint64_t at) {
      const auto byte = static_cast<std::uint8_t>(codes[(line * width + at) / 2]);
      const std::uint32_t code = at % 2 == 0 ? byte >> 4 : byte & 15;
      return DecodeElement(DataType::kFp4E2M1, code) * 0.25 *
             ValueOf(DataType::kFp8E4M3, scales, InTiles(line, at / 16, width / 16));
    });
  }
}

TEST(ComfyLayersTest, Mxfp8HasTiles) {
  for (const char* type : {"U8", "F8_E8M0"}) {
    const std::string codes = RandomBytes(160 * 96, 5, "\x7f\xff");
    const std::string scales = RandomBytes(256 * 4, 6, "\xff");
    const std::vector<WeightTensor> tensors = {Said("{\"format\":\"mxfp8\",\"convrot\":false}"),
                                               Tensor("l.weight", "F8_E4M3", {160, 96}, codes),
                                               Tensor("l.weight_scale", type, {256, 4}, scales)};
    ExpectMatrix(Made(tensors), "mxfp8-e4m3", [&](std::uint64_t line, std::uint64_t at) {
      return ValueOf(DataType::kFp8E4M3, codes, line * 96 + at) *
             ValueOf(DataType::kE8M0, scales, InTiles(line, at / 32, 3));
    });
  }
}

TEST(ComfyLayersTest, OtherFormatsAreThoseOfScaledLayers) {
  const std::string codes = RandomBytes(64, 5, "\x7f\xff");
  for (const auto& [format, type, form] :
       {std::tuple("float8_e4m3fn", "F8_E4M3", "fp8-e4m3-tensor"),
        {"int8_tensorwise", "I8", "int8-tensor"}}) {
    const WeightTensor made = Made({Said(absl::StrCat("{\"format\":\"", format, "\"}")),
                                    Tensor("l.weight", type, {8, 8}, codes),
                                    Tensor("l.weight_scale", "F32", {}, Little(BitsOf(0.5F), 4))});
    const auto found = FormOf(made);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->name, form);
  }
}

TEST(ComfyLayersTest, ALayerWithoutAFormSaysWhy) {
  const auto why = [](std::size_t changed, const WeightTensor& tensor) {
    std::vector<WeightTensor> tensors = Nvfp4(128, 256);
    tensors[changed] = tensor;
    return std::string(FormOf(Made(tensors)).status().message());
  };
  EXPECT_EQ(why(0, Said("{\"format\":\"convrot_w4a4\"}")),
            "ComfyUI U8 has no form here: its format in comfy_quant is \"convrot_w4a4\", and "
            "float8_e4m3fn, float8_e5m2, int8_tensorwise, nvfp4 and mxfp8 are read");
  for (const char* text : {"{\"format\":\"int8_tensorwise\",\"convrot\":true}",
                           "{\"format\":\"nvfp4\",\"params\":{\"convrot\":true}}"}) {
    EXPECT_THAT(why(0, Said(text)), HasSubstr("its comfy_quant has convrot, which rotates K"));
  }
  for (const std::string& text : {std::string("[]"), std::string("{"),
                                  std::string("{\"format\":1}"), std::string(4000, '[')}) {
    EXPECT_THAT(why(0, Said(text)), HasSubstr("its comfy_quant is no JSON object with a format"));
  }
  EXPECT_THAT(why(0, Said(std::string(4097, ' '))), HasSubstr("it must be U8 of at most 4096"));
  EXPECT_EQ(why(1, Tensor("l.weight", "I8", {128, 128}, std::string(16384, '1'))),
            "ComfyUI NVFP4 has no form here: its weight is I8 of [128, 128]; it must be U8 of two "
            "dimensions");
  EXPECT_EQ(why(2, Tensor("l.weight_scale", "F8_E4M3", {128, 12}, std::string(1536, '1'))),
            "ComfyUI NVFP4 has no form here: its weight_scale is F8_E4M3 of [128, 12]; it must be "
            "F8_E4M3 of [128, 16]");
  EXPECT_EQ(
      why(3, Tensor("l.weight_scale_2", "F16", {}, "12")),
      "ComfyUI NVFP4 has no form here: its weight_scale_2 is F16 of []; it must be F32 of []");
  EXPECT_EQ(why(3, Tensor("l.weight_scale_3", "F32", {}, "1234")),
            "ComfyUI NVFP4 has no form here: its weight_scale_2 is missing");
  EXPECT_EQ(why(2, Tensor("l.other", "F8_E4M3", {128, 16}, std::string(2048, '1'))),
            "ComfyUI NVFP4 has no form here: its weight_scale is missing");
}

}  // namespace
}  // namespace gemmd::client
