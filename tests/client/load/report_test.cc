#include "client/load/report/report.h"

#include "absl/strings/str_cat.h"
#include "client/load/report/diff.h"
#include "client/load/report/html_report.h"
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
  summary.pauses = 12;
  summary.paused_s = 3;
  summary.seconds = 10;
  EXPECT_TRUE(warning("nobody answered (UNAVAILABLE): 12 pauses before further tries, 30%"));
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
  ASSERT_EQ(diff.changes.size(), 2 * Figures().size());
  for (const Change& change : diff.changes) {
    if (change.figure->name == "throughput") {
      EXPECT_NEAR(change.relative(), -1.0 / 6, 0.01);
      EXPECT_TRUE(change.worse(0.05));
      EXPECT_FALSE(change.worse(0.2));
    }
    if (change.figure->name == "p50") {
      EXPECT_NEAR(change.relative(), 0.2, 0.01);
      EXPECT_TRUE(change.worse(0.05));
      EXPECT_FALSE(change.better(0.05));
    }
  }
  for (const Change& change : DiffReports(SampleReport(1), SampleReport(1)).changes) {
    EXPECT_EQ(change.relative(), 0);
  }
}

// A stage without a colour would be black, on black where the page is dark.
TEST(Report, EveryMarkOfThePageHasAColour) {
  Json report = SampleReport();
  for (Json& point : report["points"]) {
    for (auto& [name, us] : point["stage_mean_us"].items()) us = 10;
  }
  const std::string page = HtmlReport(report);
  EXPECT_THAT(page, HasSubstr(absl::StrCat("class=\"s", kStages - 1, " fill\"")));
  for (std::size_t i = 0; i < kStages; ++i) {
    EXPECT_THAT(page, HasSubstr(absl::StrCat(".s", i, " { stroke: #")));
  }
}

Json OpenReport() {
  Json report = SampleReport(3);
  double rate = 100;
  for (Json& point : report["points"]) {
    point["load"] = {{"loop", "open"}, {"arrivals", "poisson"}, {"rate_per_s", rate}};
    rate *= 2;
  }
  report["search"] = {{"for", "knee"}, {"best_per_s", 200}, {"broken_per_s", 400}, {"why", "slow"}};
  return report;
}

TEST(Report, TheKneeIsDrawn) {
  const std::string page = HtmlReport(OpenReport());
  std::size_t lines = 0;
  for (std::size_t at = 0; (at = page.find("class=\"across\"", at)) != std::string::npos; ++at) {
    ++lines;
  }
  EXPECT_EQ(lines, 3U);  // in each chart of the sweep
  EXPECT_THAT(page, HasSubstr(">knee</text>"));
  Json slo = OpenReport();
  slo["search"]["for"] = "p99=5ms";
  EXPECT_THAT(HtmlReport(slo), HasSubstr(">p99=5ms holds</text>"));
  slo["search"]["best_per_s"] = nullptr;
  EXPECT_THAT(HtmlReport(slo), Not(HasSubstr("class=\"across\"")));
}

TEST(Report, ADrawOfArrivalsIsNotTakenForAMiss) {
  EXPECT_THAT(HtmlReport(OpenReport()),
              AllOf(HasSubstr("<th>asked/s</th><th>due/s</th>"), HasSubstr("differ by chance")));
  EXPECT_THAT(HtmlReport(SampleReport()), Not(HasSubstr("due/s")));
  EXPECT_THAT(CsvReport(OpenReport()), HasSubstr(",100.0\npoisson 200/s,"));
}

TEST(Report, HasTheCourseOfTheTail) {
  const Json report = SampleReport(1);
  for (const char* name : {"p50_us", "p90_us", "p95_us", "p99_us", "p99.9_us"}) {
    EXPECT_NEAR(report["points"][0]["timeline"][9][name].get<double>(), 1000, 1) << name;
  }
}

}  // namespace
}  // namespace gemmd::load
