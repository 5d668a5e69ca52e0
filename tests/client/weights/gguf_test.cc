#include "client/weights/gguf/gguf.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/testing/weight_bytes.h"

namespace gemmd::client {
namespace {

using ::gemmd::testing::GgufBytes;
using ::gemmd::testing::Little;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint32_t kF32 = 0;
constexpr std::uint32_t kQ4_0 = 2;

// With an entry of each type, and arrays in arrays.
GgufBytes Full(std::uint32_t version) {
  GgufBytes file(version);
  file.Entry("u8", 0, Little(1, 1)).Entry("i8", 1, Little(1, 1)).Entry("u16", 2, Little(1, 2));
  file.Entry("i16", 3, Little(1, 2)).Entry("u32", 4, Little(1, 4)).Entry("i32", 5, Little(1, 4));
  file.Entry("f32", 6, Little(1, 4)).Entry("bool", 7, Little(1, 1));
  file.Entry("text", 8, GgufBytes::Text("llama"));
  file.Entry("u64", 10, Little(1, 8)).Entry("i64", 11, Little(1, 8)).Entry("f64", 12, Little(1, 8));
  file.Entry("numbers", 9, GgufBytes::Array(4, 3, std::string(12, '\7')));
  file.Entry("tokens", 9,
             GgufBytes::Array(8, 2, absl::StrCat(GgufBytes::Text("a"), GgufBytes::Text(""))));
  file.Entry("deep", 9, GgufBytes::Array(9, 1, GgufBytes::Array(0, 2, "xy")));
  return file;
}

TEST(GgufTest, MetadataOfEveryTypeIsSkipped) {
  for (const std::uint32_t version : {2, 3}) {
    GgufBytes bytes = Full(version);
    bytes.Tensor("a", {3, 2}, kF32, std::string(24, 'a'));
    bytes.Tensor("b", {32, 2}, kQ4_0, std::string(36, 'b'));
    const std::string file = bytes.Bytes();
    const auto header = ParseGguf(file);
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_EQ(header->version, version);
    EXPECT_EQ(header->entries, 15U);
    ASSERT_EQ(header->tensors.size(), 2U);
    const GgufTensor& a = header->tensors[0];
    EXPECT_EQ(a.name, "a");
    EXPECT_EQ(a.type->name, "F32");
    EXPECT_THAT(a.shape, ElementsAre(2, 3));
    EXPECT_EQ(file.substr(a.begin, a.end - a.begin), std::string(24, 'a'));
    const GgufTensor& b = header->tensors[1];
    EXPECT_EQ(file.substr(b.begin, b.end - b.begin), std::string(36, 'b'));
  }
}

TEST(GgufTest, DataBeginAtTheAlignment) {
  for (const std::uint32_t alignment : {1, 8, 64, 4096}) {
    GgufBytes bytes;
    bytes.Alignment(alignment);
    bytes.Tensor("a", {1}, kF32, "aaaa").Tensor("b", {}, kF32, "bbbb");
    const std::string file = bytes.Bytes();
    const auto header = ParseGguf(file);
    ASSERT_TRUE(header.ok()) << alignment << ": " << header.status();
    EXPECT_EQ(header->alignment, alignment);
    EXPECT_EQ(file.substr(header->tensors[0].begin, 4), "aaaa") << alignment;
    EXPECT_EQ(file.substr(header->tensors[1].begin, 4), "bbbb") << alignment;
  }
}

TEST(GgufTest, EveryTypeTakesWholeBlocks) {
  for (const GgufType& type : GgufTypes()) {
    if (type.block_bytes == 0) continue;
    const std::string data(6 * type.block_bytes, 'x');
    GgufBytes whole;
    whole.Tensor("w", {2 * type.block_elements, 3}, type.number, data);
    const auto header = ParseGguf(whole.Bytes());
    ASSERT_TRUE(header.ok()) << type.name << ": " << header.status();
    EXPECT_EQ(header->tensors[0].end - header->tensors[0].begin, data.size()) << type.name;
    GgufBytes one_less;
    one_less.Tensor("w", {2 * type.block_elements, 3}, type.number, data.substr(1));
    EXPECT_THAT(std::string(ParseGguf(one_less.Bytes()).status().message()),
                HasSubstr(absl::StrCat("tensor \"w\" has ", data.size(), " bytes at offset 0")))
        << type.name;
    if (type.block_elements == 1) continue;
    GgufBytes part;
    part.Tensor("w", {type.block_elements + 1, 3}, type.number, data);
    EXPECT_THAT(std::string(ParseGguf(part.Bytes()).status().message()),
                HasSubstr(absl::StrCat("has lines of ", type.block_elements + 1, " elements")));
  }
}

TEST(GgufTest, ATypeOfTheFutureHidesNoOthers) {
  GgufBytes bytes;
  bytes.Tensor("a", {7, 5}, 777, "?").Tensor("b", {1}, kF32, "bbbb");
  const auto header = ParseGguf(bytes.Bytes());
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->tensors[0].type, nullptr);
  EXPECT_EQ(header->tensors[0].type_number, 777U);
  EXPECT_EQ(header->tensors[0].begin, header->tensors[0].end);
  EXPECT_EQ(header->tensors[1].end - header->tensors[1].begin, 4U);
}

TEST(GgufTest, TensorsWithoutElementsTakeNoBytes) {
  GgufBytes bytes;
  bytes.AddInfo("none", {0, 5}, kF32, 0);
  const std::string file = bytes.Bytes();
  // The padding behind the header may be missing where no data follow it.
  for (const std::string& each : {file, file.substr(0, file.find_last_not_of('\0') + 20)}) {
    const auto header = ParseGguf(each);
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_EQ(header->tensors[0].begin, header->tensors[0].end);
    EXPECT_LE(header->tensors[0].end, each.size());
  }
}

std::string Why(const std::string& file) {
  const auto header = ParseGguf(file);
  EXPECT_FALSE(header.ok());
  EXPECT_EQ(header.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_LT(header.status().message().size(), 600U);
  return std::string(header.status().message());
}

TEST(GgufTest, HostileFilesAreRefusedByName) {
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 63;
  const std::string one(4, 'x');
  std::string deep = GgufBytes::Array(0, 0, "");
  for (int i = 0; i < 4; ++i) deep = GgufBytes::Array(9, 1, deep);
  struct Case {
    std::string file;
    std::string why;
  };
  const std::vector<Case> cases = {
      {"", "the file begins with \"\"; GGUF files begin with \"GGUF\""},
      {"ggjt", "the file begins with \"ggjt\""},
      {"GGUF", "version takes 4 bytes from byte 4 on of 4 that the file has"},
      {GgufBytes(1).Bytes(), "version is 1; it must be 2 or 3"},
      {GgufBytes(4).Bytes(), "version is 4; it must be 2 or 3"},
      {GgufBytes(3u << 24).Bytes(), "the file is big-endian; little-endian ones are read"},
      {GgufBytes().Bytes(kHuge, 0),
       "the number of tensors is 9223372036854775808; at most 262144 are accepted"},
      {GgufBytes().Bytes(0, kHuge),
       "the number of metadata entries is 9223372036854775808; at most 65536 are accepted"},
      {GgufBytes().Bytes(0, 1), "metadata \"\": its type takes 4 bytes from byte 32 on of 32"},
      {GgufBytes().Bytes(1, 0), "tensor \"\": its number of dimensions takes 4 bytes from byte 32"},
      {GgufBytes().Entry("k", 13, one).Bytes(),
       "metadata \"k\": its type is 13; 0 to 12 are known"},
      {GgufBytes().Entry("k", 8, Little(kHuge, 8)).Bytes(),
       "metadata \"k\": its text has 9223372036854775808 bytes; at most"},
      {GgufBytes().Entry("k", 8, Little(60, 8)).Bytes(), "metadata \"k\": its text takes 60 bytes"},
      {GgufBytes().Entry("k", 9, GgufBytes::Array(4, kHuge, "")).Bytes(),
       "metadata \"k\": the length of its array is 9223372036854775808; its elements take 4"},
      {GgufBytes().Entry("k", 9, GgufBytes::Array(8, kHuge, "")).Bytes(),
       "metadata \"k\": the length of its array is 9223372036854775808; its elements take 8"},
      {GgufBytes().Entry("k", 9, GgufBytes::Array(99, 1, one)).Bytes(),
       "metadata \"k\": the type of its array is 99; 0 to 12 are known"},
      {GgufBytes().Entry("k", 9, deep).Bytes(),
       "metadata \"k\": its value has arrays more than 4 deep"},
      {GgufBytes().Entry("k", 0, "a").Entry("k", 0, "b").Bytes(), "metadata \"k\" comes twice"},
      {GgufBytes().Entry("general.alignment", 10, Little(32, 8)).Bytes(),
       "metadata \"general.alignment\" has type 10; it must be 4, uint32"},
      {GgufBytes().Entry("general.alignment", 4, Little(0, 4)).Bytes(),
       "metadata \"general.alignment\" is 0; it must be a power of two"},
      {GgufBytes().Entry("general.alignment", 4, Little(48, 4)).Bytes(),
       "metadata \"general.alignment\" is 48; it must be a power of two"},
      {GgufBytes().Tensor("w", {1, 1, 1, 1, 1}, kF32, one).Bytes(),
       "tensor \"w\" has 5 dimensions; at most 4 are accepted"},
      {GgufBytes().Tensor("w", {1}, kF32, one).Tensor("w", {1}, kF32, one).Bytes(),
       "tensor \"w\" comes twice"},
      {GgufBytes().Tensor("w", {kHuge, 2, 2}, kF32, one).Bytes(),
       "tensor \"w\" has shape [2, 2, 9223372036854775808], which is 2^64 bytes or more"},
      {GgufBytes().Tensor("w", {1, kHuge / 4}, kF32, one).Bytes(),
       "tensor \"w\" has 9223372036854775808 bytes at offset 0; the file has 4 bytes of data"},
      {GgufBytes().AddInfo("w", {1}, kF32, 8).Bytes(),
       "tensor \"w\" has offset 8, no multiple of the alignment, 32"},
      {GgufBytes().Tensor("v", {1}, kF32, one).AddInfo("w", {1}, kF32, 32).Bytes(),
       "tensor \"w\" has 4 bytes at offset 32; the file has 4 bytes of data"},
      {GgufBytes().Tensor("v", {1}, kF32, one).AddInfo("w", {1}, kF32, ~std::uint64_t{31}).Bytes(),
       "tensor \"w\" has 4 bytes at offset 18446744073709551584"},
      {GgufBytes()
           .Tensor("v", {16}, kF32, std::string(64, 'x'))
           .AddInfo("w", {1}, kF32, 32)
           .Bytes(),
       "within tensor \"v\""},
      {GgufBytes().Tensor(std::string(65536, 'n'), {1}, kF32, one).Bytes(),
       "the name of tensor 0 has 65536 bytes; at most 65535 are accepted"},
  };
  for (const Case& each : cases) EXPECT_THAT(Why(each.file), HasSubstr(each.why));
}

TEST(GgufTest, AFileCutAnywhereIsRefused) {
  GgufBytes bytes = Full(3);
  bytes.Tensor("a", {3, 2}, kF32, std::string(24, 'a'));
  const std::string file = bytes.Bytes();
  for (std::size_t length = 0; length < file.size(); ++length) {
    EXPECT_FALSE(ParseGguf(file.substr(0, length)).ok()) << length;
  }
}

}  // namespace
}  // namespace gemmd::client
