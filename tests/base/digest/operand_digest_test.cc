#include "base/digest/operand_digest.h"

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"

namespace gemmd {
namespace {

std::string Hex(const Sha256Digest& digest) { return absl::BytesToHexString(ToBytes(digest)); }

DigestPlane Plane(std::uint32_t name, DataType type, std::uint64_t rows, std::uint64_t columns,
                  Order order, const std::string& bytes) {
  return {name, type, rows, columns, order, bytes.size(), ChunkDigests(bytes)};
}

std::string Floats(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

TEST(Sha256, IsThatOfTheStandard) {
  EXPECT_EQ(Hex(Sha256Of("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Sha256 pieces;
  pieces.Update("a");
  pieces.Update("");
  pieces.Update("bc");
  EXPECT_EQ(pieces.Finish(), Sha256Of("abc"));
}

// Both digests were computed by Python's hashlib and struct from the text in operands.proto.
TEST(OperandDigest, OfASmallMatrixIsWhatOthersCompute) {
  const DigestPlane plane =
      Plane(0, DataType::kF32, 2, 3, Order::kRowMajor, Floats({1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(Hex(OperandDigest(DataType::kF32, {plane})),
            "4353e34d1e26032cfcc7f2e46e523ab982d8831f70d2701ed81e317f148f5107");
}

TEST(OperandDigest, OfSeveralChunksAndScalesIsWhatOthersCompute) {
  constexpr std::uint64_t kRows = 1500;
  constexpr std::uint64_t kColumns = 1700;  // 2.4 MiB: three chunks
  std::string data(kRows * kColumns, '\0');
  for (std::uint64_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * i + i / 251);
  std::vector<float> scales(kRows);
  for (std::size_t i = 0; i < kRows; ++i) scales[i] = static_cast<float>(i) / 8;
  const DigestPlane plane = Plane(0, DataType::kInt8, kRows, kColumns, Order::kColumnMajor, data);
  ASSERT_EQ(plane.chunks.size(), 3u);
  EXPECT_EQ(Hex(OperandDigest(DataType::kInt8, {plane, Plane(1, DataType::kF32, kRows, 1,
                                                             Order::kRowMajor, Floats(scales))})),
            "f3fc9069f870628f65c178581dc3c995c432859d3a972ec920c361737f170162");
}

// By Python's hashlib too.
TEST(OperandDigest, AnOrderIsHashedBehindTheBlocks) {
  const DigestPlane plane = Plane(0, DataType::kInt8, 1, 3, Order::kRowMajor, "abc");
  const BlockScaling blocks = {16, 1, false};
  const auto order =
      std::make_shared<const std::vector<std::uint32_t>>(std::vector<std::uint32_t>{2, 0, 1});
  EXPECT_EQ(Hex(OperandDigest(DataType::kInt8, {plane}, blocks, order)),
            "9ab72cf98bf0c06bd6ba8140d6a0a5d3a7786755574b2b73f87453e5df890493");
}

TEST(OperandDigest, BlocksAreHashedBehindThePlanes) {
  const DigestPlane plane = Plane(0, DataType::kFp8E4M3, 1, 1, Order::kRowMajor, "x");
  EXPECT_EQ(OperandDigest(DataType::kFp8E4M3, {plane}, std::nullopt),
            OperandDigest(DataType::kFp8E4M3, {plane}));
  std::vector<Sha256Digest> digests = {OperandDigest(DataType::kFp8E4M3, {plane})};
  for (const BlockScaling& blocks : {BlockScaling{32, 1, false}, BlockScaling{64, 1, false},
                                     BlockScaling{32, 128, false}, BlockScaling{32, 1, true}}) {
    const Sha256Digest digest = OperandDigest(DataType::kFp8E4M3, {plane}, blocks);
    for (const Sha256Digest& other : digests) EXPECT_NE(digest, other);
    digests.push_back(digest);
  }
}

TEST(OperandDigest, IsAnotherForEachDifference) {
  const std::string bytes = Floats({1, 2, 3, 4, 5, 6});
  const DigestPlane good = Plane(0, DataType::kF32, 2, 3, Order::kRowMajor, bytes);
  std::vector<DigestPlane> others = {
      Plane(0, DataType::kTf32, 2, 3, Order::kRowMajor, bytes),
      Plane(0, DataType::kF32, 3, 2, Order::kRowMajor, bytes),
      Plane(0, DataType::kF32, 2, 3, Order::kColumnMajor, bytes),
      Plane(0, DataType::kF32, 2, 3, Order::kRowMajor, Floats({1, 2, 3, 4, 5, 7})),
      Plane(1, DataType::kF32, 2, 3, Order::kRowMajor, bytes),
  };
  const Sha256Digest digest = OperandDigest(DataType::kF32, {good});
  for (const DigestPlane& other : others) EXPECT_NE(OperandDigest(DataType::kF32, {other}), digest);
  EXPECT_NE(OperandDigest(DataType::kF16, {good}), digest);
  EXPECT_NE(OperandDigest(DataType::kF32, {good, good}), digest);
}

}  // namespace
}  // namespace gemmd
