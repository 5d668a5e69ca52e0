// The files of a run: all its samples, and its percentiles as HdrHistogram's text.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "base/time/units.h"
#include "client/load/results/percentile_text.h"
#include "client/load/results/sample_file.h"
#include "gmock/gmock.h"
#include "nlohmann/json.hpp"

namespace gemmd::load {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Text(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

LoadRun TwoRequests() {
  LoadRun run;
  run.begin_ns = 1000;
  run.end_ns = kSecond;
  Sample sample;
  sample.intended_ns = 2000;
  sample.sent_ns = 3000;
  sample.completed_ns = 1502000;
  sample.stage_us[kClientQueue] = 12;
  sample.batch_requests = 4;
  run.samples.push_back(sample);
  sample.intended_ns = 500;  // in the warm-up, and later in the log
  sample.code = kNotSent;
  run.samples.push_back(sample);
  return run;
}

TEST(SampleFile, HasALineForEachRequestInTheOrderInWhichTheyWereDue) {
  const std::string path = ::testing::TempDir() + "/samples.csv";
  ASSERT_TRUE((*SampleFile::Create(path))->Add("rate 5", TwoRequests(), {"a \"b\", c"}).ok());
  const std::string text = Text(path);
  EXPECT_THAT(text, StartsWith("load,entry,due_s,sent_s,completed_s,measured,code,latency_us,"
                               "batch_requests,client_queue_us,client_encode_us,"));
  EXPECT_THAT(text, HasSubstr("client_decode_us\nrate 5,\"a \"\"b\"\", c\",0.000000500,"));
  EXPECT_THAT(text, HasSubstr(",0,NOT_SENT,1501.500,"));
  EXPECT_THAT(text, HasSubstr("0.000002000,0.000003000,0.001502000,1,OK,1500.000,4,12.000,0.000,"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
}

TEST(SampleFile, IsJsonLinesWhereItsNameSaysSo) {
  const std::string path = ::testing::TempDir() + "/samples.jsonl";
  ASSERT_TRUE((*SampleFile::Create(path))->Add("rate 5", TwoRequests(), {"a \"b\", c"}).ok());
  std::istringstream lines(Text(path));
  std::string line;
  std::getline(lines, line);
  std::getline(lines, line);
  const auto sample = nlohmann::json::parse(line);
  EXPECT_EQ(sample["entry"], "a \"b\", c");
  EXPECT_EQ(sample["code"], "OK");
  EXPECT_EQ(sample["latency_us"], 1500);
  EXPECT_EQ(sample["client_queue_us"], 12);
  EXPECT_EQ(sample.size(), 9 + kStages);
}

TEST(SampleFile, RefusesOtherNamesAndPlaces) {
  const auto other = SampleFile::Create("samples.txt");
  EXPECT_THAT(std::string(other.status().message()), HasSubstr("must end in .csv or .jsonl"));
  EXPECT_FALSE(SampleFile::Create("/nowhere/at/all.csv").ok());
  if (std::ifstream("/dev/full").good()) {
    const std::string full = ::testing::TempDir() + "/full.csv";
    std::remove(full.c_str());
    ASSERT_EQ(symlink("/dev/full", full.c_str()), 0);
    auto file = SampleFile::Create(full);
    const absl::Status status =
        file.ok() ? (*file)->Add("rate 5", TwoRequests(), {"x"}) : file.status();
    EXPECT_THAT(std::string(status.message()), HasSubstr("cannot be written"));
  }
}

// The text of HdrHistogram for Java, whose values are rounded to three digits. The Python package
// hdrhistogram 0.10.8 prints the same form at other percentiles: it steps by a tenth of the rest.
TEST(PercentileText, IsThatOfHdrHistogram) {
  std::vector<TimeNs> values;
  for (int i = 1; i <= 1000; ++i) values.push_back(i * 1000000);
  const std::string text = PercentileText(values);
  EXPECT_THAT(text, StartsWith("       Value     Percentile TotalCount 1/(1-Percentile)\n\n"
                               "       1.000 0.000000000000          1           1.00\n"
                               "     100.000 0.100000000000        100           1.11\n"
                               "     200.000 0.200000000000        200           1.25\n"));
  EXPECT_THAT(text, HasSubstr("     500.000 0.500000000000        500           2.00\n"
                              "     550.000 0.550000000000        550           2.22\n"));
  EXPECT_THAT(text, HasSubstr("     750.000 0.750000000000        750           4.00\n"
                              "     775.000 0.775000000000        775           4.44\n"));
  EXPECT_THAT(text, HasSubstr("    1000.000 1.000000000000       1000\n"
                              "#[Mean    =      500.500, StdDeviation   =      288.675]\n"
                              "#[Max     =     1000.000, Total count    =         1000]\n"));
}

TEST(PercentileText, OfNothingIsAHead) {
  EXPECT_THAT(PercentileText({}), HasSubstr("Total count    =            0"));
}

TEST(PercentileText, CountsWhatWasDueInTheMeasuredTime) {
  EXPECT_EQ(SortedLatencies(TwoRequests()), std::vector<TimeNs>{1500000});
}

}  // namespace
}  // namespace gemmd::load
