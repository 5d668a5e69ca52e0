#include "base/ranges/range_set.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace gemmd {
namespace {

std::string Text(const std::vector<ByteRange>& ranges) {
  std::string text;
  for (const ByteRange& each : ranges) {
    text += std::to_string(each.begin) + "-" + std::to_string(each.end) + " ";
  }
  return text;
}

TEST(RangeSet, TellsWhatIsNew) {
  RangeSet set;
  EXPECT_EQ(Text(set.Add({10, 20})), "10-20 ");
  EXPECT_EQ(Text(set.Add({10, 20})), "");
  EXPECT_EQ(Text(set.Add({5, 5})), "");
  EXPECT_EQ(Text(set.Add({30, 40})), "30-40 ");
  EXPECT_EQ(Text(set.Add({0, 50})), "0-10 20-30 40-50 ");
  EXPECT_EQ(Text(set.Missing(60)), "50-60 ");
  EXPECT_EQ(Text(set.Missing(50)), "");
}

TEST(RangeSet, TellsOfManyGapsInFewRanges) {
  RangeSet set;
  for (std::uint64_t at = 1; at < 100; at += 10) set.Add({at, at + 5});
  EXPECT_EQ(Text(set.Missing(100, 3)), "0-1 6-11 16-100 ");
  EXPECT_EQ(Text(set.Missing(95, 3)), "0-1 6-11 16-91 ");
  EXPECT_EQ(Text(set.Missing(20, 3)), "0-1 6-11 16-20 ");
  EXPECT_EQ(set.Missing(100).size(), 11U);
}

TEST(RangeSet, AgreesWithABitmap) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    RangeSet set;
    std::vector<bool> map(64, false);
    for (int i = 0; i < 20; ++i) {
      const std::uint64_t begin = random() % 64;
      const std::uint64_t end = begin + random() % (65 - begin);
      std::vector<bool> added(64, false);
      for (const ByteRange& each : set.Add({begin, end})) {
        ASSERT_LT(each.begin, each.end);
        for (std::uint64_t at = each.begin; at < each.end; ++at) added[at] = true;
      }
      for (std::uint64_t at = 0; at < 64; ++at) {
        const bool is_new = at >= begin && at < end && !map[at];
        ASSERT_EQ(added[at], is_new) << round << " " << at;
        if (is_new) map[at] = true;
      }
      std::vector<bool> missing(64, false);
      for (const ByteRange& each : set.Missing(64)) {
        for (std::uint64_t at = each.begin; at < each.end; ++at) missing[at] = true;
      }
      for (std::uint64_t at = 0; at < 64; ++at) ASSERT_NE(missing[at], map[at]);
    }
  }
}

TEST(RangeSet, TakesWhatIsNewAsABitmapWould) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    RangeSet ranges;
    std::vector<bool> taken(64);
    for (int i = 0; i < 40; ++i) {
      const std::uint64_t begin = random() % 64;
      const std::uint64_t end = begin + random() % std::min<std::uint64_t>(9, 65 - begin);
      bool is_free = true;
      for (std::uint64_t at = begin; at < end; ++at) is_free = is_free && !taken[at];
      ASSERT_EQ(ranges.AddNew({begin, end}), is_free) << begin << " to " << end;
      for (std::uint64_t at = begin; is_free && at < end; ++at) taken[at] = true;
    }
  }
}

TEST(RangeSet, NeighboursAreOne) {
  RangeSet ranges;
  EXPECT_TRUE(ranges.AddNew({0, 4}));
  EXPECT_TRUE(ranges.AddNew({8, 12}));
  EXPECT_EQ(ranges.size(), 2U);
  EXPECT_TRUE(ranges.AddNew({4, 8}));
  EXPECT_EQ(ranges.size(), 1U);
  EXPECT_TRUE(ranges.AddNew({UINT64_MAX - 1, UINT64_MAX}));
  EXPECT_FALSE(ranges.AddNew({11, UINT64_MAX}));
}

}  // namespace
}  // namespace gemmd
