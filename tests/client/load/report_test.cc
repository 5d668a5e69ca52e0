#include "client/load/report.h"

#include "client/load/diff.h"
#include "client/load/html_report.h"
#include "gmock/gmock.h"
#include "tests/client/load/sample_report.h"

namespace gemmd::load {
namespace {

using ::gemmd::testing::SampleReport;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(Report, HasTheFiguresOfEveryPoint) {
  const Json report = SampleReport();
  const Json& point = report["points"][2];
  EXPECT_EQ(LoadName(point), "concurrency 4");
  EXPECT_NEAR(point["requests_per_s"].get<double>(), 990, 2);
  EXPECT_NEAR(point["latency_us"]["p50"].get<double>(), 4000, 1);
  EXPECT_EQ(point["errors"].size(), 1U);
  EXPECT_NEAR(point["errors"]["RESOURCE_EXHAUSTED"].get<double>(), 50, 1);
  EXPECT_EQ(point["first_errors"]["RESOURCE_EXHAUSTED"], "full <now>");
  EXPECT_NEAR(point["stage_mean_us"]["compute"].get<double>(), 1000, 0.1);
  EXPECT_EQ(point["batch_requests"].size(), 3U);
  EXPECT_FALSE(point["timeline"].empty());
  std::uint64_t in_histogram = 0;
  for (const Json& bucket : point["histogram_us"]) in_histogram += bucket[1].get<std::uint64_t>();
  EXPECT_EQ(in_histogram, point["ok"].get<std::uint64_t>());
}

TEST(Report, ASweepHasTicksWhereItsPointsAre) {
  Json report = SampleReport();
  const Json point = report["points"][0];
  report["points"] = Json::array();
  for (const int concurrency : {1, 3, 7, 24}) {
    report["points"].push_back(point);
    report["points"].back()["load"]["concurrency"] = concurrency;
  }
  const std::string page = HtmlReport(report);
  const std::string chart = page.substr(page.find("<h2>Sweep</h2>"), 4000);
  for (const char* tick : {">1</text>", ">3</text>", ">7</text>", ">24</text>"}) {
    EXPECT_THAT(chart.substr(0, chart.find("requests in flight")), HasSubstr(tick));
  }
  EXPECT_THAT(chart.substr(0, chart.find("requests in flight")), Not(HasSubstr("\">2</text>")));
}

TEST(Report, IsReadBackAsItWasWritten) {
  const Json report = SampleReport();
  const absl::StatusOr<Json> read = ParseReport(report.dump());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, report);
}

TEST(Report, ErrorsSayWhatIsMissing) {
  const auto why = [](const std::string& text) {
    return std::string(ParseReport(text).status().message());
  };
  EXPECT_THAT(why("{"), HasSubstr("no report of gemm bench"));
  EXPECT_THAT(why("[1]"), HasSubstr("no report of gemm bench"));
  EXPECT_THAT(why(R"({"format": 1})"), HasSubstr("no report of gemm bench"));
  EXPECT_THAT(why(R"({"format": "gemm-bench", "format_version": 2})"), HasSubstr("version"));
  EXPECT_THAT(why(R"({"format": "gemm-bench", "format_version": 1})"), HasSubstr("no points"));
  Json report = SampleReport(1);
  report["points"][0]["latency_us"].erase("p99.9");
  EXPECT_THAT(why(report.dump()), HasSubstr("/latency_us/p99.9"));
  report = SampleReport(1);
  report["points"][0]["load"]["concurrency"] = "many";
  EXPECT_THAT(why(report.dump()), HasSubstr("type_error"));
}

TEST(Report, WarnsWhereItMustNotBeTrusted) {
  LoadOptions options;
  options.concurrency = 1;
  LoadRun run;
  Summary summary;
  summary.requests = summary.ok = 5000;
  EXPECT_TRUE(Warnings(options, run, summary, {}).empty());
  const auto warning = [&](const char* text) {
    const std::vector<std::string> warnings = Warnings(options, run, summary, {1, 1, "row 3", {}});
    return ::testing::Matches(::testing::Contains(HasSubstr(text)))(warnings);
  };
  EXPECT_TRUE(warning("1 of 1 verified products are wrong: row 3"));
  EXPECT_FALSE(warning("bottleneck"));
  run.cpu = CpuUsage{0.95, 1, 2};
  EXPECT_TRUE(warning("95% of its 2 cores: it is the bottleneck"));
  run.cpu = CpuUsage{0.4, 0.97, 2};
  EXPECT_TRUE(warning("they compete"));
  run.stable = false;
  EXPECT_TRUE(warning("not stable"));
  run.ended_early = "full";
  EXPECT_TRUE(warning("ended early: full"));
  summary.ok = 999;
  EXPECT_TRUE(warning("p99.9 of 999"));
  summary.not_sent = 7;
  EXPECT_TRUE(warning("7 requests were due but never sent"));
  options.arrivals.emplace();
  summary.late_p99_us = 2000;
  summary.latency.p99_us = 5000;
  EXPECT_TRUE(warning("left late (p99 2.0 ms)"));
  summary.ok = 0;
  EXPECT_TRUE(warning("nothing was answered"));
}

TEST(Report, CsvHasALineAPoint) {
  const std::string csv = CsvReport(SampleReport(2));
  EXPECT_THAT(csv, StartsWith("load,seconds,requests,ok,errors,not_sent,"));
  EXPECT_THAT(csv, HasSubstr("\nconcurrency 1,5,5000,4950,50,0,1000.0,"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 3);
}

TEST(Report, HtmlHasChartsAndNothingToLoad) {
  const std::string html = HtmlReport(SampleReport());
  EXPECT_THAT(html, AllOf(HasSubstr("aria-label=\"Throughput\""),
                          HasSubstr("aria-label=\"Latency distribution\""),
                          HasSubstr("aria-label=\"Throughput over time\""),
                          HasSubstr("aria-label=\"Where the time goes, ms\""),
                          HasSubstr("aria-label=\"Batch sizes\"")));
  EXPECT_THAT(html, HasSubstr("gemm bench &lt;&amp;&quot;&#39;&gt;"));
  EXPECT_THAT(html, HasSubstr("full &lt;now&gt;"));
  EXPECT_THAT(html, Not(AnyOf(HasSubstr("http:"), HasSubstr("https:"), HasSubstr("<script"),
                              HasSubstr("nan"), HasSubstr("inf,"))));
}

TEST(Diff, ComparesEqualLoadsAndNamesTheRest) {
  const ReportDiff diff = DiffReports(SampleReport(3), SampleReport(2, 1200000));
  EXPECT_THAT(diff.only_before, ::testing::ElementsAre("concurrency 4"));
  EXPECT_TRUE(diff.only_after.empty());
  ASSERT_EQ(diff.changes.size(), 20U);
  for (const Change& change : diff.changes) {
    if (change.figure == "requests/s") {
      EXPECT_NEAR(change.relative(), -1.0 / 6, 0.01);
      EXPECT_TRUE(change.worse(0.05));
      EXPECT_FALSE(change.worse(0.2));
    }
    if (change.figure == "p50 ms") {
      EXPECT_NEAR(change.relative(), 0.2, 0.01);
      EXPECT_TRUE(change.worse(0.05));
      EXPECT_FALSE(change.better(0.05));
    }
  }
  for (const Change& change : DiffReports(SampleReport(1), SampleReport(1)).changes) {
    EXPECT_EQ(change.relative(), 0);
  }
}

}  // namespace
}  // namespace gemmd::load
