#include "kernels/workshop/bench/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace gemmd::bench {
namespace {

Timing Of(double ms) {
  Timing timing;
  timing.sustained_ms = {ms * 1.25, ms * 1.2, ms * 1.3};
  timing.burst_ms = {ms, ms, ms * 1.01};
  timing.sm_mhz = 1500;
  timing.watts = 690;
  return timing;
}

class ReportTest : public ::testing::Test {
 protected:
  ReportTest() : ladder_(*FindLadder("A")) {
    report_.command = "kernel_bench --ladder=A";
    report_.date = "2026-01-02";
    report_.machine.traits.model = "Fake GPU";
    report_.machine.telemetry = "clocks and power by NVML";
    report_.machine.power_limit_watts = 700;
    report_.peaks["f16"] = {4000, 500, 600, 700, 1000};
    CaseReport c;
    c.c = {{8192, 8192, 8192}, ParseTypes("f16_f16")->front(), {}, true};
    c.flops = 1e12;
    c.bytes = 4e8;
    c.algorithms = 8;
    c.best_algorithm = 3;
    c.search_ms = 1.5;
    c.first_ms = 1.6;
    c.rival = Of(1.25);
    Row row;
    row.kernel = "sm80/a05";
    row.timing = Of(2);
    row.checked.error_over_bound = 0.125;
    c.rows.push_back(row);
    Row rejected;
    rejected.kernel = "sm80/a06";
    rejected.error = "takes f16";
    c.rows.push_back(rejected);
    report_.cases.push_back(c);
  }

  const Ladder ladder_;
  Report report_;
};

TEST_F(ReportTest, FiguresFollowFromTimesAndPeaks) {
  const CaseReport& c = report_.cases[0];
  const Derived derived = Derive(c, c.rows[0].timing, PeaksFor(report_, c.c));
  EXPECT_DOUBLE_EQ(derived.burst_tflops, 500);
  EXPECT_DOUBLE_EQ(derived.sustained_tflops, 400);
  EXPECT_DOUBLE_EQ(derived.burst_ratio, 0.625);
  EXPECT_DOUBLE_EQ(derived.burst_roofline, 0.5);
  EXPECT_DOUBLE_EQ(derived.sustained_roofline, 400.0 / 700);
}

TEST_F(ReportTest, BytesAreTheRooflineWhereTheyTakeLonger) {
  CaseReport c = report_.cases[0];
  c.flops = 1e9;
  EXPECT_DOUBLE_EQ(Derive(c, c.rows[0].timing, PeaksFor(report_, c.c)).burst_roofline, 0.05);
}

TEST_F(ReportTest, NothingIsDerivedFromWhatIsMissing) {
  CaseReport c = report_.cases[0];
  c.rival.error = "no library";
  c.c.types = ParseTypes("f64")->front();
  const Derived derived = Derive(c, c.rows[0].timing, PeaksFor(report_, c.c));
  EXPECT_EQ(derived.burst_ratio, 0);
  EXPECT_EQ(derived.burst_roofline, 0);
  EXPECT_DOUBLE_EQ(derived.burst_tflops, 500);
}

TEST_F(ReportTest, TextHasARowForEachAndReasonsBelow) {
  const std::string text = CaseText(report_, report_.cases[0]);
  EXPECT_NE(text.find("8192x8192x8192 f16_f16 NN"), std::string::npos) << text;
  EXPECT_NE(text.find("cuBLASLt, best of 8"), std::string::npos) << text;
  EXPECT_NE(text.find("500.0 +-0.5%"), std::string::npos) << text;
  EXPECT_NE(text.find("50 %, 57 %"), std::string::npos) << text;
  EXPECT_NE(text.find("\n  sm80/a06: takes f16\n"), std::string::npos) << text;
  EXPECT_NE(text.find("best (3 of 8) 1500.00 us, 666.7 TFLOP/s"), std::string::npos) << text;
  EXPECT_EQ(text.find("published"), std::string::npos);
}

TEST_F(ReportTest, ALadderHasItsPublishedColumn) {
  report_.ladder = &ladder_;
  const std::string text = CaseText(report_, report_.cases[0]);
  EXPECT_NE(text.find("256 (0.89)"), std::string::npos) << text;
  EXPECT_NE(text.find("289 (1)"), std::string::npos) << text;
  EXPECT_NE(MachineText(report_).find("A100-SXM4-40GB"), std::string::npos);
  report_.cases[0].c.shape.k = 4096;
  const std::string other = CaseText(report_, report_.cases[0]);
  EXPECT_EQ(other.find("(0.89)"), std::string::npos) << other << "of another shape";
  EXPECT_EQ(other.find("289 (1)"), std::string::npos) << other;
}

// Every line of a table has as many cells as its header.
TEST_F(ReportTest, MarkdownIsATableWithItsCommandDateAndMachine) {
  report_.ladder = &ladder_;
  const std::string text = ToMarkdown(report_);
  EXPECT_EQ(text.rfind("`kernel_bench --ladder=A`, 2026-01-02, one Fake GPU", 0), 0u) << text;
  std::vector<std::ptrdiff_t> bars;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    if (!line.empty() && line[0] == '|') bars.push_back(std::count(line.begin(), line.end(), '|'));
    begin = end + 1;
  }
  EXPECT_EQ(bars, (std::vector<std::ptrdiff_t>(4, 12)));
}

TEST_F(ReportTest, JsonSaysEverything) {
  report_.ladder = &ladder_;
  const auto json = nlohmann::json::parse(ToJson(report_));
  const auto& c = json["cases"][0];
  EXPECT_EQ(c["shape"], "8192x8192x8192");
  EXPECT_EQ(c["cublaslt"]["search_us"], 1500);
  EXPECT_EQ(c["rows"][0]["timing"]["burst_ratio"], 0.625);
  EXPECT_EQ(c["rows"][0]["published"], "256 (0.89)");
  EXPECT_EQ(c["rows"][1]["error"], "takes f16");
  EXPECT_EQ(json["peaks"]["f16"]["wgmma_burst_tflops"], 1000);
  EXPECT_EQ(json["ladder"]["name"], "A");
  EXPECT_EQ(json["ladder"]["published_cublas_tflops"]["8192x8192x8192"], 289);
}

TEST_F(ReportTest, SummaryHasGeometricMeansAndCountsWhatIsWrong) {
  report_.cases.push_back(report_.cases[0]);
  report_.cases[1].rows[0].timing = Of(0.5);
  EXPECT_NE(
      SummaryText(report_).find("sm80/a05: geometric mean of ratios over 2 cases: burst 1.250"),
      std::string::npos)
      << SummaryText(report_);
  report_.cases[0].rows[1].is_wrong = true;
  EXPECT_EQ(WrongRows(report_), 1);
  EXPECT_NE(SummaryText(report_).find("1 rows are WRONG"), std::string::npos);
}

}  // namespace
}  // namespace gemmd::bench
