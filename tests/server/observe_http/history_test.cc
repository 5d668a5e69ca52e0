#include "server/observe_http/history.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "base/time/units.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_clock.h"

namespace gemmd {
namespace {

constexpr double kSecondsPerNs = 1e-9;

DurationHistogram HistogramOf(const std::vector<TimeNs>& durations) {
  DurationHistogram histogram;
  for (const TimeNs each : durations) histogram.Add(each);
  return histogram;
}

TEST(Quantile, NothingHasNone) { EXPECT_EQ(Quantile({}, 0.5), std::nullopt); }

TEST(Quantile, WithinABucketDurationsAreSpreadEvenly) {
  const DurationHistogram hundred = HistogramOf(std::vector<TimeNs>(100, 1'500'000));  // 1 to 2 ms
  EXPECT_DOUBLE_EQ(*Quantile(hundred, 0), 1e-3);
  EXPECT_DOUBLE_EQ(*Quantile(hundred, 0.5), 1.5e-3);
  EXPECT_DOUBLE_EQ(*Quantile(hundred, 0.99), 1.99e-3);
  EXPECT_DOUBLE_EQ(*Quantile(hundred, 1), 2e-3);
  // The first bucket begins at 0; longer than the greatest bound is that bound.
  EXPECT_DOUBLE_EQ(*Quantile(HistogramOf({5}), 0.5), 5e-6);
  EXPECT_DOUBLE_EQ(*Quantile(HistogramOf({100 * kSecond}), 0.5), 10);
  EXPECT_DOUBLE_EQ(*Quantile(HistogramOf({5, 5, 5, 100 * kSecond}), 0.99), 10);
}

// Whatever came, it lies in the bucket of the true quantile, and grows with the part.
TEST(Quantile, LiesInTheBucketOfTheTrueOne) {
  std::mt19937 random(17);
  std::lognormal_distribution<double> durations(15, 3);
  for (int round = 0; round < 500; ++round) {
    std::vector<TimeNs> all(1 + random() % 300);
    for (TimeNs& each : all) each = static_cast<TimeNs>(durations(random));
    std::sort(all.begin(), all.end());
    const DurationHistogram histogram = HistogramOf(all);
    double before = 0;
    for (const double part : {0.01, 0.1, 0.5, 0.9, 0.99, 1.0}) {
      const double found = *Quantile(histogram, part);
      EXPECT_GE(found, before);
      before = found;
      const auto rank =
          static_cast<std::size_t>(std::ceil(part * static_cast<double>(all.size()) - 1e-9));
      const std::size_t bucket = DurationHistogram::BucketOf(all[rank - 1]);
      const TimeNs least = bucket == 0 ? 0 : kDurationBounds[bucket - 1];
      const TimeNs most = kDurationBounds[std::min(bucket, kDurationBounds.size() - 1)];
      EXPECT_GE(found, static_cast<double>(least) * kSecondsPerNs * (1 - 1e-12)) << part;
      EXPECT_LE(found, static_cast<double>(most) * kSecondsPerNs * (1 + 1e-12)) << part;
    }
  }
}

TEST(HistoryRing, APointHasTheRatesOfItsTime) {
  HistoryRing ring(10 * kSecond, 3);
  HistorySample sample;
  sample.ok = 1000;  // of the time before
  sample.in_flight = 2;
  ring.Add(100 * kSecond, sample);
  EXPECT_TRUE(ring.points().empty());
  sample.in_flight = 7;  // seen within the point, and over at its end
  sample.backlog_seconds = 0.25;
  ring.Add(105 * kSecond, sample);
  sample.in_flight = 1;
  sample.backlog_seconds = 0;
  sample.ok += 50;
  sample.not_ok += 20;
  sample.flops += 1e9;
  for (int i = 0; i < 50; ++i) sample.durations.Add(1'500'000);
  ring.Add(110 * kSecond, sample);
  ASSERT_EQ(ring.points().size(), 1u);
  const HistoryPoint point = ring.points().front();
  EXPECT_EQ(point.begin, 100 * kSecond);
  EXPECT_EQ(point.end, 110 * kSecond);
  EXPECT_DOUBLE_EQ(point.ok_per_second, 5);
  EXPECT_DOUBLE_EQ(point.not_ok_per_second, 2);
  EXPECT_DOUBLE_EQ(point.flops_per_second, 1e8);
  EXPECT_DOUBLE_EQ(*point.p50_seconds, 1.5e-3);
  EXPECT_DOUBLE_EQ(*point.p99_seconds, 1.99e-3);
  EXPECT_EQ(point.in_flight, 7u);
  EXPECT_DOUBLE_EQ(point.backlog_seconds, 0.25);
  ring.Add(120 * kSecond, sample);
  EXPECT_EQ(ring.points().back().p50_seconds, std::nullopt) << "nothing ended";
  EXPECT_EQ(ring.points().back().in_flight, 1u) << "what was before is not of this point";
}

// Random histories, kept whole beside the ring: the points are the last ones of those, they touch
// each other, none begins within the length of the one before, and nothing is counted twice or
// lost.
TEST(HistoryRing, PointsAreTheLastOfTheWholeHistory) {
  std::mt19937 random(23);
  for (int round = 0; round < 200; ++round) {
    const TimeNs length = (1 + random() % 20) * kSecond;
    const std::size_t most = 1 + random() % 40;
    HistoryRing ring(length, most);
    TimeNs now = random() % (100 * kSecond);
    HistorySample sample;
    std::map<TimeNs, HistorySample> first;  // of each multiple of the length, by its moment
    const std::size_t samples = random() % 300;
    for (std::size_t i = 0; i < samples; ++i) {
      if (first.empty() || first.rbegin()->first / length != now / length) first[now] = sample;
      ring.Add(now, sample);
      // At times the thread that samples is kept for long.
      now += random() % (random() % 10 == 0 ? 5 * length : length / 2 + 1);
      sample.ok += random() % 100;
      sample.not_ok += random() % 3;
    }
    const std::vector<HistoryPoint> points = ring.points();
    const std::size_t expected = first.empty() ? 0 : std::min(most, first.size() - 1);
    ASSERT_EQ(points.size(), expected);
    auto at = std::prev(first.end(), first.empty() ? 0 : static_cast<int>(expected) + 1);
    for (const HistoryPoint& point : points) {
      const auto& [begin, before] = *at++;
      EXPECT_EQ(point.begin, begin);
      EXPECT_EQ(point.end, at->first);
      const double seconds = static_cast<double>(point.end - point.begin) * kSecondsPerNs;
      EXPECT_NEAR(point.ok_per_second * seconds, static_cast<double>(at->second.ok - before.ok),
                  1e-6);
      EXPECT_NEAR(point.not_ok_per_second * seconds,
                  static_cast<double>(at->second.not_ok - before.not_ok), 1e-6);
    }
  }
}

TEST(HistorySample, RefusedAndFailedProductsAreNotOk) {
  Statistics statistics;
  for (int i = 0; i < 6; ++i) statistics.RecordReceived();
  Receipt receipt;
  receipt.flops = 10;
  receipt.finish = 1'500'000;
  for (int i = 0; i < 3; ++i) statistics.RecordFinished(absl::StatusCode::kOk, receipt);
  statistics.RecordFinished(absl::StatusCode::kCancelled, receipt);
  statistics.RecordRefused(absl::StatusCode::kInvalidArgument);
  const HistorySample sample = SampleOf(statistics.Read());
  EXPECT_EQ(sample.ok, 3u);
  EXPECT_EQ(sample.not_ok, 2u);
  EXPECT_EQ(sample.flops, 30);
  EXPECT_EQ(sample.in_flight, 1u);
  EXPECT_EQ(sample.durations.counts, HistogramOf({1'500'000, 1'500'000, 1'500'000}).counts);
}

// A page that is opened after two hours shows the last one at once.
TEST(History, KeepsAnHourAndNoMore) {
  testing::FakeClock clock;
  HistorySample sample;
  History history([&sample] { return sample; }, &clock, std::chrono::nanoseconds(0));
  constexpr TimeNs kHour = 3600 * kSecond;
  for (TimeNs passed = 0; passed < 2 * kHour; passed += History::kPeriod) {
    clock.Advance(History::kPeriod);
    sample.ok += 6;
    history.SampleNow();
  }
  const History::Curves curves = history.curves();
  for (const HistoryRing* ring : {&curves.recent, &curves.hour}) {
    const std::vector<HistoryPoint> points = ring->points();
    ASSERT_EQ(points.size(),
              ring == &curves.recent ? History::kRecentPoints : History::kLongPoints);
    for (std::size_t i = 0; i < points.size(); ++i) {
      EXPECT_EQ(points[i].end - points[i].begin, ring->length());
      EXPECT_DOUBLE_EQ(points[i].ok_per_second, 3);
      EXPECT_EQ(points[i].begin, i == 0 ? points[i].begin : points[i - 1].end);
    }
  }
  EXPECT_EQ(curves.hour.points().back().end - curves.hour.points().front().begin, kHour);
  EXPECT_LE(clock.Now() - curves.hour.points().back().end, History::kLongPeriod);
  EXPECT_EQ(curves.recent.points().back().end, clock.Now());
}

}  // namespace
}  // namespace gemmd
