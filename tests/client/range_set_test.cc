#include "client/range_set.h"

#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace gemmd::client {
namespace {

TEST(RangeSetTest, AgreesWithABitmap) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    RangeSet ranges;
    std::vector<bool> taken(64);
    for (int i = 0; i < 40; ++i) {
      const std::uint64_t begin = random() % 64;
      const std::uint64_t end = begin + random() % std::min<std::uint64_t>(9, 65 - begin);
      bool is_free = true;
      for (std::uint64_t at = begin; at < end; ++at) is_free = is_free && !taken[at];
      ASSERT_EQ(ranges.Add(begin, end), is_free) << begin << " to " << end;
      for (std::uint64_t at = begin; is_free && at < end; ++at) taken[at] = true;
    }
  }
}

TEST(RangeSetTest, NeighboursAreOne) {
  RangeSet ranges;
  EXPECT_TRUE(ranges.Add(0, 4));
  EXPECT_TRUE(ranges.Add(8, 12));
  EXPECT_EQ(ranges.size(), 2U);
  EXPECT_TRUE(ranges.Add(4, 8));
  EXPECT_EQ(ranges.size(), 1U);
  EXPECT_TRUE(ranges.Add(UINT64_MAX - 1, UINT64_MAX));
  EXPECT_FALSE(ranges.Add(11, UINT64_MAX));
}

}  // namespace
}  // namespace gemmd::client
