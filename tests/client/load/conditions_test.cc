#include "client/load/report/conditions.h"

#include "gmock/gmock.h"
#include "tests/client/load/sample_report.h"

namespace gemmd::load {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// 10000 requests, so many of them answered.
Json Point(int ok) {
  Json point = testing::SampleReport(1)["points"][0];
  point["requests"] = 10000;
  point["ok"] = ok;
  return point;
}

std::string WhyFails(const std::string& text, const Json& point) {
  const auto conditions = ParseConditions(text, false);
  EXPECT_TRUE(conditions.ok()) << conditions.status();
  return conditions.ok() ? load::WhyFails((*conditions)[0], point) : "";
}

TEST(Conditions, ReadWhatPeopleWrite) {
  const auto conditions =
      ParseConditions("failed>1%, p99.9>=5ms,throughput < 100,p95>+10%,gb/s<-5%", true);
  ASSERT_TRUE(conditions.ok()) << conditions.status();
  ASSERT_EQ(conditions->size(), 5U);
  EXPECT_DOUBLE_EQ((*conditions)[0].limit, 0.01);
  EXPECT_EQ((*conditions)[1].limit, 5000);
  EXPECT_TRUE((*conditions)[1].is_inclusive);
  EXPECT_EQ((*conditions)[2].limit, 100);
  EXPECT_FALSE((*conditions)[2].is_change);
  EXPECT_DOUBLE_EQ((*conditions)[3].limit, 0.1);
  EXPECT_TRUE((*conditions)[3].is_change);
  EXPECT_DOUBLE_EQ((*conditions)[4].limit, -0.05);
}

TEST(Conditions, ErrorsNameThePartAndWhatIsAllowed) {
  const auto why = [](const std::string& text, bool allows_changes = true) {
    return std::string(ParseConditions(text, allows_changes).status().message());
  };
  EXPECT_THAT(why("p99>1ms,p98>5ms"),
              AllOf(HasSubstr("\"p98>5ms\" names no figure"), HasSubstr("p95, p99, p99.9")));
  EXPECT_THAT(why(""), HasSubstr("names no figure"));
  EXPECT_THAT(why("p99"), HasSubstr("says no limit, as p99>..."));
  EXPECT_THAT(why("p99=5ms"), HasSubstr("says no limit"));
  EXPECT_THAT(why("p99>5"), HasSubstr("\"p99>5\" must end in a positive duration, as p99>5ms"));
  EXPECT_THAT(why("p99>-5ms"), HasSubstr("must end in a change for the worse, as p99>+10%"));
  EXPECT_THAT(why("failed>100%"), HasSubstr("from 0% to below 100%"));
  EXPECT_THAT(why("failed>nan"), HasSubstr("from 0% to below 100%"));
  EXPECT_THAT(why("throughput<fast"), HasSubstr("a number above 0, as throughput<100"));
  EXPECT_THAT(why("throughput<+5%"), HasSubstr("as throughput<-10%"));
  // As k6 would have it: what must hold, not what fails.
  EXPECT_THAT(why("p99<5ms"), HasSubstr("would fail what is good"));
  EXPECT_THAT(why("throughput>100"), HasSubstr("would fail what is good"));
  EXPECT_THAT(why("p99>+10%", false), HasSubstr("is a change: only what compares"));
}

TEST(Conditions, SayWhatIsBeyondTheLimit) {
  const Json point = Point(9800);
  EXPECT_EQ(WhyFails("failed>2%", point), "");
  EXPECT_EQ(WhyFails("failed>1.9%", point), "failed is 2%, and failed>1.9% fails");
  EXPECT_NE(WhyFails("failed>0", point), "");
  EXPECT_EQ(WhyFails("p50>1ms", point), "");
  EXPECT_EQ(WhyFails("p50>=1ms", point), "p50 is 1.000 ms, and p50>=1ms fails");
  EXPECT_EQ(WhyFails("max>999us", point), "max is 1.000 ms, and max>999us fails");
  EXPECT_EQ(WhyFails("throughput<900", point), "");
  EXPECT_THAT(WhyFails("throughput<1001", point), HasSubstr("/s, and throughput<1001 fails"));
  // Latencies of nothing are zeros.
  EXPECT_THAT(WhyFails("p99>1h", Point(0)), HasSubstr("nothing was answered"));
  Json old = point;
  old["latency_us"].erase("p95");
  EXPECT_EQ(WhyFails("p95>1h", old), "the report has no p95 for p95>1h");
}

TEST(Conditions, ATenthOfTheRequestsMayFailUnlessAnotherShareIsNamed) {
  const auto why = [](const std::string& text, int ok) {
    const auto conditions = text.empty() ? std::vector<Condition>() : *ParseConditions(text, true);
    return WhyTooManyFailed(conditions, Point(ok));
  };
  EXPECT_EQ(why("", 9000), "");
  EXPECT_THAT(why("", 8999), HasSubstr("10% of the requests failed, at most 10% may"));
  EXPECT_THAT(why("p99>1s", 8999), HasSubstr("at most 10%"));
  EXPECT_THAT(why("failed>+1%", 8999), HasSubstr("at most 10%"));
  EXPECT_EQ(why("failed>99%", 5000), "");
  // A run of which most failed has measured something else, whatever is allowed.
  EXPECT_THAT(why("failed>99%", 4999), HasSubstr("at most 50% may, whatever is allowed"));
}

}  // namespace
}  // namespace gemmd::load
