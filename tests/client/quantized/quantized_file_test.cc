#include "client/quantized/quantized_file.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/quantized/quantize.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/testing/temporary_directory.h"

namespace gemmd::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Matrix Normal(std::uint64_t rows, std::uint64_t columns, std::uint32_t seed, bool has_sign) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::string bytes(rows * columns * sizeof(float), '\0');
  for (std::uint64_t i = 0; i < rows * columns; ++i) {
    const float value = has_sign ? normal(random) : std::abs(normal(random));
    std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
  }
  return *Matrix::Create({DataType::kF32, rows, columns}, std::move(bytes));
}

QuantizedArray Array(const std::string& format, std::uint64_t rows, std::uint64_t columns,
                     KAxis axis = KAxis::kRows, bool is_tiled = false) {
  const Matrix matrix = Normal(rows, columns, 5, HasSign(*FindQuantFormat(format)));
  return *QuantizeMatrix(matrix.view(), {format, axis, is_tiled, {}});
}

KOrder Backwards(std::uint64_t k) {
  std::vector<std::uint32_t> order(k);
  for (std::uint64_t i = 0; i < k; ++i) order[i] = static_cast<std::uint32_t>(k - 1 - i);
  return std::make_shared<const std::vector<std::uint32_t>>(std::move(order));
}

// A file of that header and so many bytes.
std::string Container(absl::string_view json, std::uint64_t data_bytes) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(json.size() >> (8 * i));
  return absl::StrCat(file, json, std::string(data_bytes, '\1'));
}

class QuantizedFileTest : public ::testing::Test {
 protected:
  testing::TemporaryDirectory directory_;
};

TEST_F(QuantizedFileTest, EveryFormatComesBackAsItWas) {
  int files = 0;
  for (const NamedFormat& named : QuantFormats()) {
    for (const KAxis axis : {KAxis::kRows, KAxis::kColumns}) {
      for (const bool is_tiled : {false, true}) {
        if (is_tiled && SizeBits(named.format.scaling.type) != 8) continue;
        // Whole blocks and bytes, and neither.
        for (const std::uint64_t rows : {128, 7}) {
          const QuantizedArray array = Array(named.name, rows, 133, axis, is_tiled);
          const std::string path = directory_.Path(absl::StrCat(++files));
          ASSERT_TRUE(WriteQuantizedFile(path, array).ok());
          EXPECT_TRUE(IsQuantizedFile(path));
          const auto read = ReadQuantizedFile(path);
          ASSERT_TRUE(read.ok()) << named.name << ": " << read.status();
          EXPECT_EQ(read->format_name, named.name);
          EXPECT_EQ(read->format.element, array.format.element);
          EXPECT_EQ(read->format.scaling, array.format.scaling);
          EXPECT_EQ(read->rows, rows);
          EXPECT_EQ(read->columns, 133U);
          EXPECT_EQ(read->k_axis, axis);
          EXPECT_EQ(read->codes.view(), array.codes.view()) << named.name;
          EXPECT_EQ(read->scales.view(), array.scales.view()) << named.name;
          EXPECT_EQ(read->zero_points.view(), array.zero_points.view()) << named.name;
          EXPECT_EQ(read->offsets.view(), array.offsets.view()) << named.name;
          EXPECT_EQ(read->tensor_scale, array.tensor_scale) << named.name;
        }
      }
    }
  }
}

TEST_F(QuantizedFileTest, IsWrittenAsTheDocumentSays) {
  const std::string path = directory_.Path("w.gq");
  ASSERT_TRUE(WriteQuantizedFile(path, Array("nvfp4", 32, 4)).ok());
  const std::string file = testing::FileBytes(path);
  const std::string json =
      R"({"__metadata__":{"gemmd.format":"nvfp4","gemmd.k_axis":"0",)"
      R"("gemmd.scale_layout":"plain","gemmd.shape":"32x4","gemmd.version":"1"},)"
      R"("data":{"dtype":"U8","shape":[4,16],"data_offsets":[4,68]},)"
      R"("scales":{"dtype":"F8_E4M3","shape":[4,2],"data_offsets":[68,76]},)"
      R"("tensor_scale":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]}})";
  EXPECT_EQ(file.substr(8, json.size()), json);
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  EXPECT_EQ(length % 8, 0U);
  EXPECT_EQ(file.size(), 8 + length + 76);
}

// Header of mxfp8-e4m3 of 64 x 3 with K the rows: 192 bytes of data, 6 of scales.
constexpr char kGood[] =
    R"({"__metadata__":{"gemmd.format":"mxfp8-e4m3","gemmd.k_axis":"0",)"
    R"("gemmd.scale_layout":"plain","gemmd.shape":"64x3","gemmd.version":"1","by":"others"},)"
    R"("data":{"dtype":"F8_E4M3","shape":[3,64],"data_offsets":[0,192]},)"
    R"("scales":{"dtype":"U8","shape":[3,2],"data_offsets":[192,198]}})";
constexpr std::uint64_t kGoodBytes = 198;

TEST_F(QuantizedFileTest, HostileContainersAreRefusedByName) {
  const std::string good = directory_.File("good", Container(kGood, kGoodBytes));
  ASSERT_TRUE(ReadQuantizedFile(good).ok()) << ReadQuantizedFile(good).status();

  struct Case {
    std::string was;  // in kGood, and what is there instead
    std::string is;
    std::string why;
    std::uint64_t bytes = kGoodBytes;
  };
  const std::string deep(20000, '[');
  const std::vector<Case> cases = {
      {"{\"__", " {\"__", "the header does not begin with {"},
      {"]}}", "]}", "the header is no JSON from its byte"},
      {"]}}", "]}}x", "the header is no JSON from its byte"},
      {"]}}", std::string("]}}\0x", 5), "the header is no JSON from its byte"},
      {"others", "\xff\xfe", "the header is no JSON from its byte"},
      {"\"others\"", "7", "the header's \"__metadata__\": \"by\" has the number 7"},
      {"\"others\"", "{}", "the header's \"__metadata__\": \"by\" has an object"},
      {"\"others\"", deep, "the header's \"__metadata__\": \"by\" has an array"},
      {"[3,64]", deep, "the header's \"data\": \"shape\" has an array"},
      {"[3,64]", "[3,-64]", "has the negative number -64"},
      {"[3,64]", "[3,64.0]", "has the number \"64.0\""},
      {"[3,64]", "[3,18446744073709551616]", "has the number \"18446744073709551616\""},
      {"[3,64]", "[3,64,1,1,1,1,1,1,1]", "has more than 8 numbers"},
      {"[3,64]", "[64,3]", "data has shape [64, 3]; it must be [3, 64]"},
      {"[3,64]", "[192]", "data has shape [192]; it must be [3, 64]"},
      {"[3,64]", "\"3x64\"", "the header's \"data\": \"shape\" has a text"},
      {"[3,64]", "null", "the header's \"data\": \"shape\" has null"},
      {"\"F8_E4M3\"", "true", "the header's \"data\": \"dtype\" has a truth value"},
      {"F8_E4M3", "F8_E5M2", "data has dtype \"F8_E5M2\"; it must be F8_E4M3"},
      {"F8_E4M3", "F7", "data has dtype \"F7\"; it must be F8_E4M3"},
      {"\"dtype\":\"U8\",", "", "tensor \"scales\" has no dtype"},
      {",\"data_offsets\":[192,198]", "", "tensor \"scales\" has no data_offsets"},
      {"\"dtype\":\"U8\"", "\"dtype\":\"U8\",\"strides\":[1]", "has the field \"strides\""},
      {"\"dtype\":\"U8\"", "\"dtype\":\"U8\",\"dtype\":\"U8\"", "the header has \"dtype\" twice"},
      {"\"scales\"", "\"data\"", "the header has \"data\" twice"},
      {"\"by\"", "\"gemmd.version\"", "the header has \"gemmd.version\" twice"},
      {"\"scales\":{", "\"__metadata__\":{", "the header has \"__metadata__\" twice"},
      {"[192,198]", "[198,192]", "tensor \"scales\" has data_offsets 198 to 192"},
      {"[192,198]", "[192,199]", "within the 198 bytes behind the header"},
      {"[192,198]", "[192,18446744073709551615]", "within the 198 bytes behind the header"},
      {"[192,198]", "[192]", "\"data_offsets\" has 1 numbers; it must have 2"},
      {"[192,198]", "[192,197]", "scales takes 6 bytes, but its data_offsets have 5"},
      {"[192,198]", "[186,192]", "tensor \"scales\" begins at byte 186, within another one"},
      {"[192,198]", "[193,199]", "byte 192 of the 199 behind the header belongs to no tensor", 199},
      {"", "", "byte 198 of the 199 behind the header belongs to no tensor", 199},
      {"", "", "within the 197 bytes behind the header", 197},
      {"\"scales\"", "\"scale\"", "there is no tensor scales, which mxfp8-e4m3 has"},
      {"]}}", "]},\"zero_points\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[198,198]}}",
       "there is a tensor \"zero_points\", which mxfp8-e4m3 has not"},
      {"mxfp8-e4m3", "mxfp9", "gemmd.format is \"mxfp9\", which is no quantized format"},
      {"mxfp8-e4m3", "nvfp4", "there is no tensor tensor_scale, which nvfp4 has"},
      {"mxfp8-e4m3", "mxfp4", "data has dtype \"F8_E4M3\"; it must be U8"},
      {"\"gemmd.format\"", "\"format\"", "the metadata has no gemmd.format"},
      {"\"gemmd.version\":\"1\"", "\"gemmd.version\":\"2\"",
       "gemmd.version is \"2\"; it must be 1"},
      {"\"by\"", "\"gemmd.seed\"", "the metadata has \"gemmd.seed\", which version 1 has not"},
      {"64x3", "64x0", "gemmd.shape is \"64x0\"; it must be ROWSxCOLUMNS"},
      {"64x3", "64x+3", "gemmd.shape is \"64x+3\""},
      {"64x3", "064x3", "gemmd.shape is \"064x3\""},
      {"64x3", "64x3x1", "gemmd.shape is \"64x3x1\""},
      {"64x3", "2147483648x3", "each of 1 to 2147483647"},
      {"64x3", "2147483647x2147483647", "data has shape [3, 64]; it must be [2147483647, 21474836"},
      {"\"gemmd.k_axis\":\"0\"", "\"gemmd.k_axis\":\"1\"",
       "data has shape [3, 64]; it must be [64"},
      {"\"gemmd.k_axis\":\"0\"", "\"gemmd.k_axis\":\"2\"",
       "gemmd.k_axis is \"2\"; it must be 0 or 1"},
      {"plain", "tiles", "gemmd.scale_layout is \"tiles\"; it must be plain or blocked-128x4"},
      {"plain", "blocked-128x4", "scales has shape [3, 2]; it must be [128, 4]"},
  };
  EXPECT_GE(cases.size(), 20U);
  for (const Case& each : cases) {
    std::string json = kGood;
    if (!each.was.empty()) {
      const std::size_t at = json.find(each.was);
      ASSERT_NE(at, std::string::npos) << each.was;
      json.replace(at, each.was.size(), each.is);
    }
    const std::string path = directory_.File("x.gq", Container(json, each.bytes));
    const absl::Status status = ReadQuantizedFile(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << each.why;
    EXPECT_THAT(std::string(status.message()), AllOf(StartsWith(path + ": "), HasSubstr(each.why)));
    EXPECT_LT(status.message().size(), 600U) << each.why;
  }
}

TEST_F(QuantizedFileTest, LengthsOfHeadersAreBounded) {
  const auto why = [&](const std::string& bytes) {
    return std::string(ReadQuantizedFile(directory_.File("x.gq", bytes)).status().message());
  };
  EXPECT_THAT(why(""), HasSubstr("the file has 0 bytes; a safetensors file begins with 8"));
  EXPECT_THAT(why("1234567"), HasSubstr("the file has 7 bytes"));
  EXPECT_THAT(why(std::string(8, '\0')), HasSubstr("header length 0: 1 to 65536 bytes"));
  EXPECT_THAT(why(std::string(100, '\xff')), HasSubstr("header length 18446744073709551615: 1 to"));
  EXPECT_THAT(why(std::string("\x01\x00\x01\x00\x00\x00\x00\x00", 8) + std::string(70000, '{')),
              HasSubstr("header length 65537: 1 to 65536"));
  EXPECT_THAT(why(std::string("\x09\x00\x00\x00\x00\x00\x00\x00{}", 10)),
              HasSubstr("header length 9 reaches beyond the file of 10 bytes"));
  const std::string good = Container(kGood, kGoodBytes);
  for (std::size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(ReadQuantizedFile(directory_.File("x.gq", good.substr(0, length))).ok());
  }
}

TEST_F(QuantizedFileTest, TilesAreOfScalesOfABlockAlone) {
  const std::string json =
      absl::StrReplaceAll(kGood, {{"mxfp8-e4m3", "fp8-e4m3-row"}, {"plain", "blocked-128x4"}});
  EXPECT_THAT(
      std::string(ReadQuantizedFile(directory_.File("x.gq", Container(json, kGoodBytes)))
                      .status()
                      .message()),
      HasSubstr("gemmd.scale_layout is blocked-128x4; scales of fp8-e4m3-row must be plain"));
}

TEST_F(QuantizedFileTest, AnOrderOfKComesBackWhereThereAreBlocksAlongK) {
  const std::string path = directory_.Path("w.gq");
  int orders = 0;
  for (const NamedFormat& named : QuantFormats()) {
    if (named.format.scaling.block_k == kWhole) continue;
    for (const KAxis axis : {KAxis::kRows, KAxis::kColumns}) {
      QuantizedArray array = Array(named.name, 7, 133, axis);
      array.k_order = Backwards(array.k());
      ASSERT_TRUE(WriteQuantizedFile(path, array).ok());
      const auto read = ReadQuantizedFile(path);
      ASSERT_TRUE(read.ok()) << named.name << ": " << read.status();
      EXPECT_TRUE(AreEqual(read->k_order, array.k_order)) << named.name;
      EXPECT_EQ(read->codes.view(), array.codes.view()) << named.name;
      EXPECT_EQ(read->scales.view(), array.scales.view()) << named.name;
      EXPECT_EQ(read->offsets.view(), array.offsets.view()) << named.name;
      ++orders;
    }
  }
  EXPECT_GE(orders, 100);
}

TEST_F(QuantizedFileTest, AnOrderIsWrittenAsTheDocumentSays) {
  QuantizedArray array = Array("mxfp8-e4m3", 64, 3);
  array.k_order = Backwards(64);
  const std::string path = directory_.Path("w.gq");
  ASSERT_TRUE(WriteQuantizedFile(path, array).ok());
  const std::string file = testing::FileBytes(path);
  EXPECT_THAT(file,
              HasSubstr(R"("data":{"dtype":"F8_E4M3","shape":[3,64],"data_offsets":[256,448]},)"
                        R"("k_order":{"dtype":"I32","shape":[64],"data_offsets":[0,256]},)"));
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  EXPECT_EQ(file.substr(8 + length, 8), std::string("\x3f\0\0\0\x3e\0\0\0", 8));
}

TEST_F(QuantizedFileTest, OrdersThatAreNoneAreRefusedByName) {
  QuantizedArray array = Array("mxfp8-e4m3", 64, 3);
  const auto why = [&](std::vector<std::uint32_t> order, const std::string& was = "",
                       const std::string& is = "") {
    array.k_order = std::make_shared<const std::vector<std::uint32_t>>(std::move(order));
    const std::string path = directory_.Path("x.gq");
    EXPECT_TRUE(WriteQuantizedFile(path, array).ok());
    std::string file = testing::FileBytes(path);
    if (!was.empty()) file.replace(file.find(was), was.size(), is);
    const absl::Status status = ReadQuantizedFile(directory_.File("x.gq", file)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  std::vector<std::uint32_t> order = *Backwards(64);
  order[5] = 64;
  EXPECT_THAT(why(order), HasSubstr("x.gq: k_order[5] is 64; it must be less than K, 64"));
  order[5] = 63;
  EXPECT_THAT(why(order), HasSubstr("x.gq: k_order[5] is 63, which came before"));
  order[5] = 0xffffffff;
  EXPECT_THAT(why(order), HasSubstr("k_order[5] is 4294967295; it must be less than K, 64"));
  EXPECT_THAT(why(*Backwards(64), "[64]", "[46]"),
              HasSubstr("k_order has shape [46]; it must be [64]"));
  EXPECT_THAT(why(*Backwards(64), "I32", "U32"),
              HasSubstr("k_order has dtype \"U32\"; it must be"));
  // Formats without blocks along K have no order.
  const std::string json = absl::StrReplaceAll(
      kGood, {{"mxfp8-e4m3", "fp8-e4m3-tensor"},
              {R"("U8","shape":[3,2],"data_offsets":[192,198])",
               R"("F32","shape":[1,1],"data_offsets":[192,196]},)"
               R"("k_order":{"dtype":"I32","shape":[64],"data_offsets":[196,452])"}});
  EXPECT_THAT(
      std::string(
          ReadQuantizedFile(directory_.File("x.gq", Container(json, 452))).status().message()),
      HasSubstr("there is a tensor \"k_order\", which fp8-e4m3-tensor has not"));
}

TEST_F(QuantizedFileTest, AFileIsKnownByItsNameOrItsBeginning) {
  EXPECT_TRUE(IsQuantizedFile("missing.gq"));
  EXPECT_TRUE(IsQuantizedFile("missing.safetensors"));
  EXPECT_FALSE(IsQuantizedFile(directory_.Path("missing")));
  EXPECT_TRUE(IsQuantizedFile(directory_.File("x", Container(kGood, kGoodBytes))));
  EXPECT_FALSE(IsQuantizedFile(directory_.File("x", "\x93NUMPY\x01\x00{")));
  EXPECT_FALSE(IsQuantizedFile(directory_.File("x", "short")));
}

TEST_F(QuantizedFileTest, AnotherProgramsOrderAndMetadataAreTaken) {
  // Scales first, blanks around, and a key of somebody else's.
  const std::string json = absl::StrReplaceAll(
      kGood, {{"[0,192]", "[6, 198]"}, {"[192,198]", "[0, 6]"}, {"]}}", "] } }\n  "}});
  const auto array = ReadQuantizedFile(directory_.File("x", Container(json, kGoodBytes)));
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_EQ(array->codes.view().size(), 192U);
  EXPECT_EQ(array->scales.view().size(), 6U);
}

}  // namespace
}  // namespace gemmd::client
