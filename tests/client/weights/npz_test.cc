#include "client/weights/npz.h"

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/weights/weight_form.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/testing/npy_bytes.h"
#include "tests/client/testing/weight_bytes.h"

namespace gemmd::client {
namespace {

using ::gemmd::testing::NpzBytes;
using ::testing::HasSubstr;

std::string Npy(const std::string& descr, const std::string& shape, const std::string& bytes,
                bool is_fortran = false) {
  const std::string dictionary =
      absl::StrCat("{'descr': '", descr, "', 'fortran_order': ", is_fortran ? "True" : "False",
                   ", 'shape': ", shape, ", }\n");
  return testing::NpyBytes(dictionary, bytes);
}

std::vector<WeightTensor> Parsed(const std::string& bytes) {
  auto tensors = ParseNpz(Bytes(bytes));
  EXPECT_TRUE(tensors.ok()) << tensors.status();
  return tensors.ok() ? *std::move(tensors) : std::vector<WeightTensor>();
}

std::string Why(const std::string& bytes) {
  return std::string(ParseNpz(Bytes(bytes)).status().message());
}

TEST(NpzTest, ArraysKeepTypesShapesAndBytes) {
  NpzBytes npz;
  npz.Member("w.npy", Npy("<f4", "(2, 1)", "abcdefgh"));
  npz.Member("layer/b.npy", Npy("<V2", "(1, 3)", "ABCDEF"), {0, 0, true, 0, 0});
  npz.Member("none.npy", Npy("|u1", "(0,)", ""));
  npz.Member("text.npy", Npy("<U1", "(1,)", std::string("t") + std::string(3, '\0')));
  for (const std::string& bytes : {npz.Bytes(), npz.Bytes("a comment"), npz.Bytes64()}) {
    std::string found;
    for (const WeightTensor& tensor : Parsed(bytes)) {
      absl::StrAppend(&found, tensor.name, " ", tensor.type, " ", ShapeText(tensor.shape), " ",
                      std::string(tensor.bytes.view()).c_str(), "; ");
    }
    EXPECT_EQ(found,
              "w F32 [2, 1] abcdefgh; layer/b BF16 [1, 3] ABCDEF; none U8 [0] ; text <U1 [1] t; ");
  }
}

TEST(NpzTest, ColumnsMayRunFastest) {
  const std::vector<WeightTensor> tensors =
      Parsed(NpzBytes()
                 .Member("f.npy", Npy("<f4", "(2, 3)", std::string(24, 'x'), true))
                 .Member("u.npy", Npy("|u1", "(2, 3)", "abcdef", true))
                 .Member("s.npy", Npy("|i1", "(1, 2, 3)", "abcdef", true))
                 .Bytes());
  ASSERT_EQ(tensors.size(), 3U);
  const auto operand = OperandOf(tensors[0]);
  ASSERT_TRUE(operand.ok()) << operand.status();
  EXPECT_EQ(std::get<Matrix>(*operand).format().order, Order::kColumnMajor);
  EXPECT_EQ(std::get<Matrix>(*operand).format().rows, 2U);
  for (const std::size_t other : {1, 2}) {
    EXPECT_THAT(std::string(FormOf(tensors[other]).status().message()),
                HasSubstr("it is in Fortran order, in which matrices of floats and int8 alone"));
  }
}

TEST(NpzTest, ATypeThatIsNotKnownHasNoForm) {
  const auto tensors = Parsed(NpzBytes().Member("w.npy", Npy(">f4", "(1, 1)", "abcd")).Bytes());
  EXPECT_EQ(FormOf(tensors[0]).status().message(),
            ">f4 has no form here: this version of gemm does not know it; little-endian <f4 is "
            "closest");
}

TEST(NpzTest, HostileArchivesAreRefusedByName) {
  const std::string npy = Npy("<f4", "(1, 1)", "abcd");
  const auto with = [&](const NpzBytes::How& how) {
    return NpzBytes().Member("w.npy", npy, how).Bytes();
  };
  EXPECT_EQ(Why(with({0, 8, false, 0, 0})),
            "member \"w.npy\" is compressed, by method 8; np.savez stores arrays as they are, and "
            "these are read: np.savez_compressed does not");
  EXPECT_EQ(Why(with({1, 0, false, 0, 0})), "member \"w.npy\" is encrypted");
  EXPECT_THAT(Why(with({0, 0, false, 1, 0})),
              HasSubstr("member \"w.npy\" has no header at byte 1"));
  EXPECT_THAT(Why(with({0, 0, true, ~std::uint64_t{0}, 0})),
              HasSubstr("has no header at byte 184467"));
  EXPECT_THAT(Why(with({0, 0, true, 0, std::uint64_t{1} << 63})),
              HasSubstr("bytes from byte 55 on"));
  EXPECT_THAT(Why(with({0, 0, false, 0, 1000})), HasSubstr("bytes from byte 35 on of"));
  EXPECT_THAT(Why(with({0, 0, false, 0, 1})), HasSubstr("and has 5"));
  EXPECT_EQ(Why(NpzBytes().Member("w.npy", npy).Member("w.npy", npy).Bytes()),
            "member \"w.npy\" comes twice");
  EXPECT_THAT(Why(NpzBytes().Member("m/data.pkl", "x").Bytes()),
              HasSubstr("member \"m/data.pkl\" is no .npy file, of which np.savez makes archives"));
  EXPECT_THAT(Why(NpzBytes().Member("w.npy", "no array").Bytes()), HasSubstr("member \"w.npy\": "));
  EXPECT_THAT(Why(NpzBytes().Member("w.npy", npy.substr(0, 40)).Bytes()),
              HasSubstr("member \"w.npy\" has a header of"));
  EXPECT_THAT(
      Why(NpzBytes().Member("w.npy", Npy("<f4", "(9223372036854775807, 8)", "abcd")).Bytes()),
      HasSubstr("takes 18446744073709551615 bytes behind its header, and has 4"));
  // Two members of the same bytes.
  NpzBytes shared;
  shared.Member("a.npy", npy);
  const std::uint64_t size = npy.size() + 35;
  shared.Member("b.npy", npy, {0, 0, false, ~size + 1, 0});
  EXPECT_THAT(Why(shared.Bytes()), HasSubstr("begins at byte 35, within member"));
  const std::string whole = NpzBytes().Member("w.npy", npy).Bytes();
  for (std::size_t length = 4; length < whole.size(); ++length) {
    EXPECT_FALSE(ParseNpz(Bytes(whole.substr(0, length))).ok()) << length;
  }
  std::string many = NpzBytes().Bytes64();
  many.replace(32, 8, testing::Little(1 << 19, 8));
  EXPECT_EQ(Why(many), "the number of members is 524288; at most 262144 are accepted");
}

}  // namespace
}  // namespace gemmd::client
