#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "base/numbers/quant/packed_codes.h"
#include "base/numbers/types.h"
#include "gtest/gtest.h"

namespace gemmd {
namespace {

TEST(PackedCodes, ComeBackInAnyOrderOfStores) {
  std::mt19937 random(2);
  for (const int bits : {4, 6, 8, 16, 32}) {
    constexpr std::int64_t kCount = 101;
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(PackedBytes(bits, kCount)), 0xa5);
    std::vector<std::uint32_t> codes(kCount);
    for (int store = 0; store < 5000; ++store) {
      const std::int64_t at = store < kCount ? store : static_cast<std::int64_t>(random() % kCount);
      const std::uint32_t code = bits == 32 ? random() : random() % (1u << bits);
      codes[static_cast<std::size_t>(at)] = code;
      StoreCode(bytes.data(), bits, at, code);
      if (store < kCount) continue;
      for (const std::int64_t each : {at - 1, at, at + 1}) {
        if (each < 0 || each >= kCount) continue;
        ASSERT_EQ(LoadCode(bytes.data(), bits, each), codes[static_cast<std::size_t>(each)]);
      }
    }
  }
}

TEST(PackedCodes, LieLowestBitsFirst) {
  std::vector<std::uint8_t> bytes(3);
  StoreCode(bytes.data(), 4, 0, 0x1);
  StoreCode(bytes.data(), 4, 1, 0x2);
  StoreCode(bytes.data(), 4, 2, 0x3);
  EXPECT_EQ(bytes, (std::vector<std::uint8_t>{0x21, 0x03, 0x00}));
  for (std::uint32_t i = 0; i < 4; ++i) StoreCode(bytes.data(), 6, i, i + 1);
  // 000100'000011'000010'000001 in 24 bits.
  EXPECT_EQ(bytes, (std::vector<std::uint8_t>{0x81, 0x30, 0x10}));
  EXPECT_EQ(PackedBytes(4, 3), 2);
  EXPECT_EQ(PackedBytes(6, 5), 4);
}

TEST(ScaleOrder, PlainLayoutsAreRowMajorOfEitherMatrix) {
  EXPECT_EQ(ScaleIndex(ScaleOrder::kAlongK, 7, 5, 3, 2), 3 * 5 + 2);
  EXPECT_EQ(ScaleIndex(ScaleOrder::kAlongLines, 7, 5, 3, 2), 2 * 7 + 3);
  EXPECT_EQ(ScaleCount(ScaleOrder::kAlongK, 7, 5), 35);
  EXPECT_EQ(ScaleCount(ScaleOrder::kAlongLines, 7, 5), 35);
}

// Walks the bytes of the tiles in order, by the picture of the layout: a tile is 32 rows of 16
// bytes, each of which holds four blocks of lines 32 apart.
TEST(ScaleOrder, TilesAreWalkedInOrder) {
  for (const std::int64_t lines : {1, 128, 129, 300}) {
    for (const std::int64_t blocks : {1, 4, 5, 11}) {
      std::int64_t at = 0;
      for (std::int64_t line = 0; line < lines; line += 128) {
        for (std::int64_t block = 0; block < blocks; block += 4) {
          for (int row = 0; row < 32; ++row) {
            for (int quarter = 0; quarter < 4; ++quarter) {
              for (int column = 0; column < 4; ++column, ++at) {
                const std::int64_t l = line + quarter * 32 + row;
                if (l >= lines || block + column >= blocks) continue;
                ASSERT_EQ(ScaleIndex(ScaleOrder::kTiles128x4, lines, blocks, l, block + column),
                          at);
              }
            }
          }
        }
      }
      ASSERT_EQ(ScaleCount(ScaleOrder::kTiles128x4, lines, blocks), at);
    }
  }
}

}  // namespace
}  // namespace gemmd
