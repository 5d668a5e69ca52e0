#include "server/store/range_set.h"

#include <random>
#include <string>

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

}  // namespace
}  // namespace gemmd
