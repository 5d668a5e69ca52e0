#include "client/weights/weight_form.h"

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/weights/gguf/gguf_types.h"
#include "client/weights/safetensors_types.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gemmd::client {
namespace {

using ::testing::HasSubstr;

// A tensor without bytes of meaning; they are as many as its type and shape say.
WeightTensor Tensor(const std::string& type, bool is_gguf, std::vector<std::uint64_t> shape,
                    std::uint64_t bytes) {
  return {"w", is_gguf, type, std::move(shape), Bytes(std::string(bytes, '\0')), nullptr};
}

TEST(WeightFormTest, EveryTypeHasAFormOrSaysWhyNotAndWhatIsClosest) {
  std::string forms;
  for (const SafetensorsType& type : SafetensorsTypes()) {
    const auto form = FormOf(
        Tensor(std::string(type.name), false, {2, 4}, static_cast<std::uint64_t>(type.bits)));
    EXPECT_EQ(form.ok(), type.why.empty()) << type.name;
    if (form.ok()) {
      absl::StrAppend(&forms, type.name, "=", form->name, ":", form->size_bytes, " ");
      continue;
    }
    EXPECT_THAT(std::string(form.status().message()),
                HasSubstr(absl::StrCat(type.name, " has no form here: ")));
  }
  EXPECT_EQ(forms,
            "U8=uint8-tensor:12 I8=int8:8 F8_E5M2=fp8-e5m2:8 F8_E4M3=fp8-e4m3:8 F8_E4M3FNUZ=f16:16 "
            "F8_E5M2FNUZ=f16:16 F16=f16:16 BF16=bf16:16 "
            "F32=f32:32 F64=f64:64 ");
  forms.clear();
  for (const GgufType& type : GgufTypes()) {
    const auto form = FormOf(
        Tensor(std::string(type.name), true, {2, type.block_elements}, 2 * type.block_bytes));
    EXPECT_EQ(form.ok(), type.why.empty()) << type.name;
    if (form.ok()) {
      absl::StrAppend(&forms, type.name, "=", form->name, ":", form->size_bytes, " ");
      continue;
    }
    EXPECT_THAT(std::string(form.status().message()), HasSubstr("closest")) << type.name;
  }
  // Two blocks each: codes, scales, offsets and the scale of the tensor.
  EXPECT_EQ(
      forms,
      "F32=f32:8 F16=f16:4 Q4_0=int4-g32-f16:36 Q4_1=int4-g32-f16-offset:40 Q5_0=int8-g32:72 "
      "Q5_1=uint8-g32-offset:80 Q8_0=int8-g32:72 Q2_K=int4-g16-f32-offset:512 "
      "Q3_K=int4-g16-f32:384 Q4_K=int4-g32-f32-offset:384 Q5_K=uint8-g32-offset:640 "
      "Q6_K=int8-g16:640 IQ4_NL=iq4-nl-g32-f16:36 IQ4_XS=iq4-nl-g32-f32:320 I8=int8:2 F64=f64:16 "
      "BF16=bf16:4 TQ1_0=int4-g128-f16:264 TQ2_0=int4-g128-f16:264 MXFP4=mxfp4:34 "
      "NVFP4=nvfp4:76 ");
}

TEST(WeightFormTest, AMatrixHasTwoDimensions) {
  const auto why = [](std::vector<std::uint64_t> shape) {
    const auto form = FormOf(Tensor("F32", false, std::move(shape), 0));
    return form.ok() ? "" : std::string(form.status().message());
  };
  EXPECT_EQ(why({}), "its shape [] has 0 dimensions; a matrix has 2, a stack of them 3");
  EXPECT_EQ(why({7}), "its shape [7] has 1 dimension; a matrix has 2, a stack of them 3");
  EXPECT_EQ(why({1, 2, 3, 4}),
            "its shape [1, 2, 3, 4] has 4 dimensions; a matrix has 2, a stack of them 3");
  EXPECT_EQ(why({0, 2, 3}), "its shape [0, 2, 3] has 0; a dimension is 1 to 2147483647");
  EXPECT_EQ(why({2, 3, 4}), "");
  EXPECT_EQ(why({0, 3}), "its shape [0, 3] has 0; a dimension is 1 to 2147483647");
  EXPECT_EQ(why({3, 0}), "its shape [3, 0] has 0; a dimension is 1 to 2147483647");
  EXPECT_EQ(why({1, 2147483648}),
            "its shape [1, 2147483648] has 2147483648; a dimension is 1 to 2147483647");
  EXPECT_EQ(why({2, 3}), "");
}

TEST(WeightFormTest, AStackGoesMatrixByMatrix) {
  WeightTensor stack = Tensor("F16", false, {3, 2, 4}, 0);
  std::string bytes;
  for (char i = 0; i < 48; ++i) bytes += i;
  stack.bytes = Bytes(bytes);
  const auto form = FormOf(stack);
  ASSERT_TRUE(form.ok()) << form.status();
  EXPECT_EQ(form->parts, 3U);
  EXPECT_EQ(form->rows, 2U);
  EXPECT_EQ(form->size_bytes, 48U);
  EXPECT_EQ(OperandOf(stack).status().message(),
            "it is a stack of 3 matrices, which go one by one: \"w\" and its index, [0] to [2]");
  const WeightTensor last = MatrixOf(stack, 2);
  EXPECT_EQ(last.name, "w[2]");
  const auto operand = OperandOf(last);
  ASSERT_TRUE(operand.ok()) << operand.status();
  EXPECT_EQ(std::get<Matrix>(*operand).bytes(), bytes.substr(32));
  const auto blocks = FormOf(Tensor("Q8_0", true, {3, 2, 64}, 3 * 2 * 2 * 34));
  ASSERT_TRUE(blocks.ok()) << blocks.status();
  EXPECT_EQ(blocks->size_bytes, 3U * 2 * 2 * 36);
}

TEST(WeightFormTest, AnUnknownTypeIsRefused) {
  EXPECT_EQ(FormOf(Tensor("type 777", true, {2, 3}, 0)).status().message(),
            "type 777 has no form here: this version of gemm does not know it");
}

TEST(WeightFormTest, AMatrixSharesItsBytesWhereTheyAreAligned) {
  const std::string text = "0123456789abcdef0123456789abcdef";
  const Bytes all(text);
  for (const std::size_t offset : {0, 1, 2, 4}) {
    WeightTensor tensor = Tensor("F32", false, {2, 3}, 0);
    tensor.bytes = Bytes(all.owner(), all.view().substr(offset, 24));
    const auto operand = OperandOf(tensor);
    ASSERT_TRUE(operand.ok()) << operand.status();
    const auto& matrix = std::get<Matrix>(*operand);
    EXPECT_EQ(matrix.format().rows, 2U);
    EXPECT_EQ(matrix.format().columns, 3U);
    EXPECT_EQ(matrix.format().order, Order::kRowMajor);
    EXPECT_EQ(matrix.bytes(), text.substr(offset, 24));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(matrix.bytes().data()) % 4, 0U) << offset;
    EXPECT_EQ(matrix.bytes().data() == tensor.bytes.view().data(), offset % 4 == 0) << offset;
  }
}

TEST(WeightFormTest, UnsignedBytesHaveAScaleOfOne) {
  WeightTensor tensor = Tensor("U8", false, {2, 3}, 0);
  tensor.bytes = Bytes(std::string("\0\1\x7f\x80\xfe\xff", 6));
  const auto operand = OperandOf(tensor);
  ASSERT_TRUE(operand.ok()) << operand.status();
  const auto& array = std::get<QuantizedArray>(*operand);
  EXPECT_EQ(array.codes.view().data(), tensor.bytes.view().data());
  ASSERT_TRUE(ToOperand(array, Side::kA).ok());
  const double expected[] = {0, 1, 127, 128, 254, 255};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(array.view().value(i / 3, i % 3), expected[i]);
}

TEST(WeightFormTest, AQuantizedOneHasKAsItsColumns) {
  WeightTensor tensor = Tensor("Q8_0", true, {3, 64}, 3 * 2 * 34);
  auto operand = OperandOf(tensor);
  ASSERT_TRUE(operand.ok()) << operand.status();
  const auto& array = std::get<QuantizedArray>(*operand);
  EXPECT_EQ(array.k_axis, KAxis::kColumns);
  EXPECT_EQ(array.lines(), 3U);
  EXPECT_EQ(array.k(), 64U);
  std::string nan(3 * 2 * 34, '\0');
  nan[34 + 1] = 0x7e;
  tensor.bytes = Bytes(nan);
  EXPECT_THAT(std::string(OperandOf(tensor).status().message()),
              HasSubstr("the block of row 0, columns 32 to 63 has no form in int8-g32"));
}

}  // namespace
}  // namespace gemmd::client
