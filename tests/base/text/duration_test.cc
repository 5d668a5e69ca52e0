#include "base/text/duration.h"

#include "gtest/gtest.h"

namespace gemmd {
namespace {

TEST(DurationText, HasTheUnitsThatPeopleWrite) {
  EXPECT_EQ(DurationText(absl::Hours(48)), "48h");
  EXPECT_EQ(DurationText(absl::Seconds(90)), "1m30s");
  EXPECT_EQ(DurationText(absl::Milliseconds(250)), "250ms");
  EXPECT_EQ(DurationText(1500), "1.5us");
  EXPECT_EQ(DurationText(0), "0s");
  EXPECT_EQ(DurationText(-absl::Minutes(1)), "-1m");
}

TEST(DurationText, CanBeParsedBack) {
  for (const std::int64_t ns : {1L, 999L, 1000000L, 60000000000L, 3661500000000L}) {
    absl::Duration parsed;
    ASSERT_TRUE(absl::ParseDuration(DurationText(ns), &parsed)) << ns;
    EXPECT_EQ(absl::ToInt64Nanoseconds(parsed), ns);
  }
}

}  // namespace
}  // namespace gemmd
