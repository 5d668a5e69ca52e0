#include "client/weights/onnx/onnx.h"

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/weights/weight_form.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/testing/weight_bytes.h"

namespace gemmd::client {
namespace {

using ::gemmd::testing::Little;
using ::gemmd::testing::OnnxBytes;
using ::testing::HasSubstr;

absl::StatusOr<Bytes> OpenBeside(const std::string& location) {
  if (location == "w.bin" || location == "below/w.bin") return Bytes(std::string("0123456789"));
  return absl::InvalidArgumentError(absl::StrCat(location, ": is not there"));
}

std::vector<WeightTensor> Parsed(const std::string& bytes) {
  auto tensors = ParseOnnx(Bytes(bytes), OpenBeside);
  EXPECT_TRUE(tensors.ok()) << tensors.status();
  return tensors.ok() ? *std::move(tensors) : std::vector<WeightTensor>();
}

std::string Why(const std::string& bytes) {
  const auto tensors = ParseOnnx(Bytes(bytes), OpenBeside);
  EXPECT_FALSE(tensors.ok());
  EXPECT_LT(tensors.status().message().size(), 600U);
  return std::string(tensors.status().message());
}

std::string WhyTensor(const std::string& tensor) { return Why(OnnxBytes().Tensor(tensor).Bytes()); }

std::string WhyNoForm(const std::string& tensor) {
  const auto tensors = Parsed(OnnxBytes().Tensor(tensor).Bytes());
  return tensors.size() == 1 ? std::string(FormOf(tensors[0]).status().message()) : "";
}

std::string Listed(const std::vector<WeightTensor>& tensors) {
  std::string found;
  for (const WeightTensor& tensor : tensors) {
    absl::StrAppend(&found, tensor.name, " ", tensor.type, " ", ShapeText(tensor.shape), " ",
                    tensor.bytes.view(), "; ");
  }
  return found;
}

TEST(OnnxTest, InitializersKeepTypesShapesAndBytes) {
  const std::string doubles = Little(0x4141414141414141, 8);
  const std::string bytes =
      OnnxBytes()
          .Tensor(OnnxBytes::Raw("w", 1, {2, 1}, "abcdefgh"))
          .Tensor(OnnxBytes::Header("v", 1, {1, 1}) + OnnxBytes::Field(4, "abcd"))
          .Tensor(OnnxBytes::Header("d", 11, {1, 1}) + OnnxBytes::Field(10, doubles))
          .Tensor(OnnxBytes::Header("n", 3, {1, 2}) +
                  OnnxBytes::Field(5, OnnxBytes::Varint(65) + OnnxBytes::Varint(66)))
          .Tensor(OnnxBytes::Header("h", 10, {1, 1}) +
                  OnnxBytes::Field(5, OnnxBytes::Varint(0x4241)))
          .Tensor(OnnxBytes::External("x", 3, {1, 4}, "w.bin", "2", "4"))
          .Tensor(OnnxBytes::External("y", 17, {2, 2}, "below/w.bin", "6", "4"))
          .Tensor(OnnxBytes::Number(1, 2) + OnnxBytes::Number(1, 1) + OnnxBytes::Number(2, 16) +
                  OnnxBytes::Field(8, "u") + OnnxBytes::Field(9, "ABCD"))
          .AddNode(OnnxBytes::Node(
              "Constant", {}, "c",
              OnnxBytes::Field(5, OnnxBytes::Field(1, "value") +
                                      OnnxBytes::Field(5, OnnxBytes::Raw("", 3, {1, 2}, "cc")))))
          .Bytes();
  EXPECT_EQ(Listed(Parsed(bytes)),
            "c I8 [1, 2] cc; d F64 [1, 1] AAAAAAAA; h F16 [1, 1] AB; n I8 [1, 2] AB; "
            "u BF16 [2, 1] ABCD; v F32 [1, 1] abcd; w F32 [2, 1] abcdefgh; x I8 [1, 4] 2345; "
            "y F8_E4M3 [2, 2] 6789; ");
}

TEST(OnnxTest, NumbersBelowZeroAreTenBytesLong) {
  const auto tensors = Parsed(
      OnnxBytes()
          .Tensor(OnnxBytes::Header("n", 3, {1, 2}) +
                  OnnxBytes::Field(5, OnnxBytes::Varint(~std::uint64_t{0}) + OnnxBytes::Varint(1)))
          .Bytes());
  ASSERT_EQ(tensors.size(), 1U);
  EXPECT_EQ(tensors[0].bytes.view(), "\xff\x01");
  EXPECT_FALSE(tensors[0].bytes.is_mapped_file());
}

TEST(OnnxTest, DecodedBytesAreNotGivenBack) {
  std::string entries;
  for (int i = 0; i < 1 << 16; ++i) entries += OnnxBytes::Varint(7);
  const auto tensors =
      Parsed(OnnxBytes()
                 .Tensor(OnnxBytes::Header("n", 3, {256, 256}) + OnnxBytes::Field(5, entries))
                 .Bytes());
  ASSERT_EQ(tensors.size(), 1U);
  ReleasePages(tensors[0]);
  EXPECT_EQ(tensors[0].bytes.view(), std::string(1 << 16, 7));
}

TEST(OnnxTest, ItBeginsWithAVersionAndAnotherField) {
  EXPECT_TRUE(BeginsAsOnnx(OnnxBytes().Bytes().substr(0, kOnnxPreambleBytes)));
  EXPECT_TRUE(BeginsAsOnnx("\x08\x0a\x3a\x05more"));
  EXPECT_TRUE(BeginsAsOnnx("\x08\x07\x12\x07pytorch"));
  EXPECT_TRUE(BeginsAsOnnx("\x08\x07\x12\x81\x01"));
  EXPECT_FALSE(BeginsAsOnnx("\x08\x01\x12\x07pytorch"));  // a SavedModel
  EXPECT_FALSE(
      BeginsAsOnnx("\x08\x07\x12\x07pyto\x02"
                   "ch"));
  EXPECT_FALSE(BeginsAsOnnx("\x08\x07\x13\x07pytorch"));
  EXPECT_FALSE(BeginsAsOnnx("\x08\x80\x01\x3a\x05"));
  EXPECT_FALSE(BeginsAsOnnx("\x08\x0a\x3a"));
  EXPECT_FALSE(BeginsAsOnnx("\x08\x0a"));
  EXPECT_FALSE(BeginsAsOnnx(""));
}

TEST(OnnxTest, TypesWithoutAFormSaySo) {
  EXPECT_EQ(WhyNoForm(OnnxBytes::Raw("w", 22, {3, 3}, "abcde")),
            "I4 has no form here: no node that is read gives its codes scales; int4-g32-f16 is "
            "closest: gemm quantize makes it of the f16 or f32 file");
  EXPECT_EQ(WhyNoForm(OnnxBytes::Raw("w", 99, {3, 3}, "abcde")),
            "type 99 has no form here: this version of gemm does not know it");
  EXPECT_EQ(WhyNoForm(OnnxBytes::Header("w", 8, {1, 1}) + OnnxBytes::Field(6, "text")),
            "STRING has no form here: texts are no numbers");
  EXPECT_THAT(WhyNoForm(OnnxBytes::Raw("w", 15, {1, 1}, std::string(16, 'c'))),
              HasSubstr("complex numbers have no form"));
  EXPECT_THAT(WhyNoForm(OnnxBytes::Header("w", 7, {1, 1}) + OnnxBytes::Field(7, "\1")),
              HasSubstr("I64 has no form here: integers of a matrix have 8 bits"));
  EXPECT_THAT(WhyNoForm(OnnxBytes::Header("w", 1, {1, 1}) + OnnxBytes::Varint(4 << 3 | 5) + "abcd"),
              HasSubstr("its values are not packed in one piece"));
  EXPECT_THAT(WhyNoForm(OnnxBytes::Header("w", 3, {1 << 13, 1 << 12}) + OnnxBytes::Field(5, "")),
              HasSubstr("int32_data has its values, and at most 16777216 are read there"));
  const auto sparse =
      Parsed(OnnxBytes()
                 .GraphField(OnnxBytes::Field(
                     15, OnnxBytes::Field(1, OnnxBytes::Raw("s", 1, {1, 1}, "abcd"))))
                 .Bytes());
  ASSERT_EQ(sparse.size(), 1U);
  EXPECT_EQ(FormOf(sparse[0]).status().message(),
            "F32 has no form here: it is sparse; a dense F32 is closest");
}

TEST(OnnxTest, HostileTensorsAreRefusedByName) {
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 62;
  EXPECT_EQ(WhyTensor(OnnxBytes::Raw("w", 1, {2, 1}, "abcd")),
            "tensor \"w\" of F32 and shape [2, 1] takes 8 bytes, but its raw_data have 4");
  EXPECT_EQ(WhyTensor(OnnxBytes::Raw("w", 1, {2 * kHuge, 1}, "abcd")),
            "tensor \"w\" has the dimension -9223372036854775808, which is below 0");
  EXPECT_EQ(WhyTensor(OnnxBytes::Raw("w", 1, {kHuge, 8}, "abcd")),
            "tensor \"w\" has shape [4611686018427387904, 8], which is 2^61 bytes or more");
  EXPECT_EQ(WhyTensor(OnnxBytes::Raw("w", 3, std::vector<std::uint64_t>(17, 1), "a")),
            "a tensor has more than 16 dimensions, the most that is accepted");
  EXPECT_EQ(WhyTensor(OnnxBytes::Header("w", 1, {2, 1})),
            "tensor \"w\" of F32 and shape [2, 1] takes 8 bytes, and has no values");
  EXPECT_EQ(WhyTensor(OnnxBytes::Raw("w", 1, {1, 1}, "abcd") + OnnxBytes::Field(9, "abcd")),
            "a tensor has raw_data twice");
  EXPECT_EQ(WhyTensor(OnnxBytes::Raw("w", 1, {1, 1}, "abcd") + OnnxBytes::Field(4, "abcd")),
            "tensor \"w\" has raw_data, and values in another field");
  EXPECT_EQ(WhyTensor(OnnxBytes::Header("w", 1, {1, 1}) + OnnxBytes::Field(4, "abcd") +
                      OnnxBytes::Field(5, "a")),
            "tensor \"w\" has its values in two fields");
  EXPECT_EQ(WhyTensor(OnnxBytes::Header("w", 1, {1, 1}) + OnnxBytes::Field(5, "a")),
            "tensor \"w\" of F32 has its values in field 5 of TensorProto; those of its type are "
            "in 4");
  EXPECT_THAT(WhyTensor(OnnxBytes::Header("w", 1, {1, 1}) + OnnxBytes::Field(4, "abc")),
              HasSubstr("takes 4 bytes, but its values have 3"));
  EXPECT_THAT(WhyTensor(OnnxBytes::Header("w", 3, {1, 2}) + OnnxBytes::Field(5, "a")),
              HasSubstr("takes 2 entries of int32_data, which has 1"));
  EXPECT_THAT(WhyTensor(OnnxBytes::Header("w", 3, {1, 2}) + OnnxBytes::Field(5, "abc")),
              HasSubstr("has 99 as entry 2 of 2 in int32_data"));
  EXPECT_THAT(
      WhyTensor(OnnxBytes::Header("w", 3, {1, 1}) + OnnxBytes::Field(5, OnnxBytes::Varint(256))),
      HasSubstr("has 256 as entry 0 of 1"));
  EXPECT_EQ(WhyTensor(OnnxBytes::Raw("w", 1, {1, 1}, "abcd") + OnnxBytes::Field(3, "")),
            "tensor \"w\" is a segment of one; whole tensors are read");
  EXPECT_EQ(WhyTensor(OnnxBytes::Raw("w", 1, {1, 1}, "abcd") + OnnxBytes::Number(14, 2)),
            "tensor \"w\" has data_location 2; 0, in the model, and 1, external, are known");
  EXPECT_EQ(WhyTensor(OnnxBytes::Raw("", 1, {1, 1}, "abcd")), "tensor 0 has no name");
  EXPECT_EQ(Why(OnnxBytes()
                    .Tensor(OnnxBytes::Raw("w", 1, {1, 1}, "abcd"))
                    .Tensor(OnnxBytes::Raw("w", 1, {1, 1}, "abcd"))
                    .Bytes()),
            "tensor \"w\" comes twice");
}

TEST(OnnxTest, FilesBesideTheModelAreRefusedByName) {
  const auto why = [](const std::string& location, const std::string& offset,
                      const std::string& length) {
    return WhyTensor(OnnxBytes::External("w", 3, {1, 4}, location, offset, length));
  };
  for (const char* location :
       {"/etc/passwd", "-", "../w.bin", "..", ".", "", "a//b", "a/../w.bin", "a/", "./w.bin"}) {
    EXPECT_EQ(why(location, "0", "4"),
              absl::StrCat("tensor \"w\" has its data in \"", location,
                           "\"; it must be a file of the model's folder or below it, without "
                           "\".\" and \"..\""));
  }
  EXPECT_THAT(why(std::string("w.bin\0x", 7), "0", "4"), HasSubstr("it must be a file of"));
  EXPECT_EQ(why("other", "0", "4"), "other: is not there");
  EXPECT_EQ(why("w.bin", "7", "4"),
            "tensor \"w\" has 4 bytes at offset 7 of \"w.bin\", which has 10");
  EXPECT_THAT(why("w.bin", "18446744073709551615", "4"), HasSubstr("at offset 18446744073709551"));
  EXPECT_EQ(why("w.bin", "-1", "4"),
            "tensor \"w\" has the external offset \"-1\"; it must be a whole number of 64 bits");
  EXPECT_THAT(why("w.bin", "18446744073709551616", "4"), HasSubstr("it must be a whole number"));
  EXPECT_EQ(why("w.bin", "0", "5"),
            "tensor \"w\" of I8 and shape [1, 4] takes 4 bytes, but its external length is 5");
  EXPECT_EQ(WhyTensor(OnnxBytes::Header("w", 3, {1, 1}) + OnnxBytes::Number(14, 1)),
            "tensor \"w\" has data_location external, and external_data without a location");
  EXPECT_EQ(
      WhyTensor(OnnxBytes::External("w", 3, {1, 1}, "w.bin", "0", "1") + OnnxBytes::Field(9, "a")),
      "tensor \"w\" has data_location external, and values in the model too");
  EXPECT_EQ(WhyTensor(OnnxBytes::External("w", 3, {1, 1}, "w.bin", "0", "1") +
                      OnnxBytes::Entry("offset", "1")),
            "a tensor has a key of external_data twice");
}

TEST(OnnxTest, RangesOfAFileAreTheSameOrApart) {
  const auto model = [](const std::string& offset, const std::string& length) {
    return OnnxBytes()
        .Tensor(OnnxBytes::External("v", 3, {1, 4}, "w.bin", "2", "4"))
        .Tensor(OnnxBytes::External("w", 3, {1, static_cast<std::uint64_t>(length[0] - '0')},
                                    "w.bin", offset, length))
        .Bytes();
  };
  EXPECT_EQ(Parsed(model("2", "4")).size(), 2U);
  EXPECT_EQ(Parsed(model("6", "4")).size(), 2U);
  EXPECT_EQ(Why(model("5", "4")),
            "tensor \"w\" begins at byte 5 of \"w.bin\", within tensor \"v\"");
  EXPECT_EQ(Why(model("2", "3")),
            "tensor \"v\" begins at byte 2 of \"w.bin\", within tensor \"w\"");
}

TEST(OnnxTest, OffsetAndLengthMayBeAbsent) {
  const auto tensors =
      Parsed(OnnxBytes()
                 .Tensor(OnnxBytes::Header("w", 3, {1, 4}) + OnnxBytes::Entry("location", "w.bin") +
                         OnnxBytes::Number(14, 1))
                 .Bytes());
  EXPECT_EQ(Listed(tensors), "w I8 [1, 4] 0123; ");
}

TEST(OnnxTest, HostileMessagesAreRefusedByTheirPlace) {
  const std::string huge = OnnxBytes::Varint(std::uint64_t{1} << 63);
  EXPECT_EQ(Why(OnnxBytes::ModelOf("")),
            "the file begins as an ONNX model and has no graph, its field 7");
  EXPECT_EQ(Why(OnnxBytes::ModelOf(OnnxBytes::Field(7, "") + OnnxBytes::Field(7, ""))),
            "the model has two graphs");
  EXPECT_EQ(Why("\x08\x0a\x3a" + huge),
            "at byte 13 of the file field 7 has 9223372036854775808 bytes; its message has 0 left");
  EXPECT_EQ(Why("\x08\x0a\x3a\xff"),
            "at byte 3 of the file a number is cut off by the end of its message");
  EXPECT_EQ(Why("\x08\x0a\x3a" + std::string(11, '\xff')),
            "at byte 3 of the file a number has more than 64 bits");
  EXPECT_EQ(Why("\x08\x0a\x28" + std::string(9, '\x80') + "\x02"),
            "at byte 3 of the file a number has more than 64 bits");
  EXPECT_EQ(Why("\x08\x0a\x3b"),
            "at byte 3 of the file field 7 is of the kind 3; 0, 1, 2 and 5 are known");
  EXPECT_THAT(Why(std::string("\x08\x0a\x02", 3)), HasSubstr("a field has the number 0"));
  EXPECT_THAT(Why("\x08\x0a\x09zzz"), HasSubstr("field 1 has 8 bytes; its message has 3 left"));
  EXPECT_THAT(Why("\x08\x0a\x0dzzz"), HasSubstr("field 1 has 4 bytes; its message has 3 left"));
}

TEST(OnnxTest, GraphsInNodesAreReadToADepth) {
  const auto deep = [](int depth) {
    std::string graph;
    for (int i = 0; i < depth; ++i) {
      const std::string attribute = OnnxBytes::Field(1, "then_branch") + OnnxBytes::Field(6, graph);
      graph =
          OnnxBytes::Field(1, OnnxBytes::Node("If", {"c"}, "y", OnnxBytes::Field(5, attribute)));
    }
    return OnnxBytes::ModelOf(OnnxBytes::Field(7, graph));
  };
  EXPECT_TRUE(Parsed(deep(kMostOnnxDepth)).empty());
  EXPECT_EQ(Why(deep(kMostOnnxDepth + 1)),
            "the model has graphs in nodes more than 16 deep, the most that is accepted");
  EXPECT_THAT(Why(deep(2000)), HasSubstr("more than 16 deep"));
}

TEST(OnnxTest, InitializersOfGraphsInNodesAreLeftOut) {
  const auto model = [](const std::string& name) {
    const std::string graph = OnnxBytes().Tensor(OnnxBytes::Raw(name, 3, {1, 1}, "i")).graph();
    const std::string attribute = OnnxBytes::Field(1, "body") + OnnxBytes::Field(6, graph);
    return OnnxBytes()
        .Tensor(OnnxBytes::Raw("w", 3, {1, 1}, "o"))
        .AddNode(OnnxBytes::Node("Loop", {}, "y", OnnxBytes::Field(5, attribute)))
        .Bytes();
  };
  EXPECT_EQ(Listed(Parsed(model("inner"))), "w I8 [1, 1] o; ");
  EXPECT_EQ(Why(model("w")), "tensor \"w\" comes twice, once in a graph within a node");
}

TEST(OnnxTest, AModelCutAnywhereIsRefusedOrHasLess) {
  const std::string whole = OnnxBytes()
                                .Tensor(OnnxBytes::Raw("w", 1, {2, 1}, "abcdefgh"))
                                .AddNode(OnnxBytes::Node("MatMul", {"x", "w"}, "y"))
                                .Bytes();
  const std::size_t behind_graph = whole.size() - OnnxBytes::Field(8, "12").size();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const auto tensors = ParseOnnx(Bytes(whole.substr(0, length)), OpenBeside);
    EXPECT_EQ(tensors.ok(), length == behind_graph) << length;
  }
}

}  // namespace
}  // namespace gemmd::client
