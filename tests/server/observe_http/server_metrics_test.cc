#include "server/observe_http/server_metrics.h"

#include <chrono>
#include <fstream>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/observe/allocated_memory.h"
#include "server/trace/otlp_exporter.h"
#include "server/trace/tracer.h"
#include "tests/testing/exposition_parser.h"
#include "tests/testing/fake_alarm.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_device.h"

namespace gemmd {
namespace {

using testing::BoundOf;
using testing::FakeAlarm;
using testing::FakeClock;
using testing::FakeDevice;

constexpr std::chrono::milliseconds kWhenTold(0);

// A collector that never answers, so that what it is sent stays where it is.
class NeverAnswers final : public SpanSender {
 public:
  SendOutcome Send(const std::string& /*body*/, std::chrono::milliseconds /*timeout*/) override {
    return {};
  }
  void Interrupt() override {}
};

std::unique_ptr<OtlpExporter> ExporterToNobody() {
  OtlpExporter::Options options;
  options.period = std::chrono::hours(1);
  options.queue_bytes = 600;
  return std::make_unique<OtlpExporter>(options, std::make_unique<NeverAnswers>(),
                                        [](const std::vector<Timeline>&) { return ""; });
}

// The parts of a server that serves nobody.
class ServerMetricsTest : public ::testing::Test {
 protected:
  ServerMetricsTest() {
    sources_.router = &router_;
    sources_.statistics = &statistics_;
    sources_.tracer = &tracer_;
    sources_.store = &store_;
    sources_.regions = &regions_;
    sources_.verifier = &verifier_;
    sources_.room = &room_;
    sources_.admission = &admission_;
    sources_.tuner = &tuner_;
    sources_.measured_plans = [] { return std::size_t{5}; };
    sources_.connections = &connections_;
    holdings_.Add(connections_.ledger());
    holdings_.Add(admission_.ledger_of(&device_), "fake");
    sources_.holdings = &holdings_;
    sources_.http = [] { return HttpServer::Counts{3, 2, 1}; };
    sources_.certificate_expiry = [] { return std::optional<double>(2e9); };
  }

  static std::size_t SeriesOf(const std::vector<MetricFamily>& families) {
    std::size_t series = 0;
    for (const MetricFamily& family : families) {
      for (const MetricSample& sample : family.samples) {
        series += family.type == MetricType::kHistogram ? sample.buckets.counts.size() + 2 : 1;
      }
    }
    return series;
  }

  FakeClock clock_;
  FakeDevice device_{&clock_, 1000000, 2};
  FakeAlarm alarm_;
  Scheduler scheduler_{&device_, &clock_, &alarm_, BoundOf(3)};
  const Router router_{{{&device_, &scheduler_}}};
  Tracer tracer_{{1 << 16, 1'000'000, 1}, ExporterToNobody()};
  Statistics statistics_;
  OperandStore store_{StoreOptions(), &device_, &clock_, 1};
  RegionTable regions_{RegionOptions(), {&device_}, &clock_, kWhenTold};
  Verifier verifier_{VerifierOptions()};
  WaitingRoom room_{WaitingRoom::Bounds(), &clock_, kWhenTold};
  Admission admission_{RequestLimits(), &BuiltinRegistry(), &router_, &clock_};
  PlanCache plans_;
  Tuner tuner_{{&BuiltinRegistry(), &router_, &admission_, &plans_, ""}};
  ConnectionTable connections_{ConnectionTable::Limits(), ProgressLimit(), &clock_};
  HoldingsOverview holdings_;
  MetricSources sources_;
};

TEST_F(ServerMetricsTest, HoldingsAreToldWithTheirLimitsAndWithoutNames) {
  Ledger fruit(
      [] {
        LedgerRules rules;
        rules.quantities = {LedgerQuantity{"apples", ""}, LedgerQuantity{"apple_bytes", ""}};
        return rules;
      }(),
      {Amounts{7, kUnlimited}, Unlimited(), Amounts{9, 90}});
  holdings_.Add(fruit);
  const auto one = fruit.Take({"one", std::nullopt}, {2, 30});
  const auto other = fruit.Take({"other", std::nullopt}, {3, 20});
  const auto page =
      ReadExposition(WriteExposition(CollectMetrics(sources_), ExpositionForm::kPrometheus),
                     ExpositionForm::kPrometheus);
  ASSERT_TRUE(page.ok()) << page.status();
  const auto value = [&page](const std::string& family, const char* quantity, const char* party) {
    return page->Value(family, {{"quantity", quantity}, {"party", party}, {"device", ""}});
  };
  EXPECT_EQ(value("gemmd_holdings", "apples", "all"), 5);
  EXPECT_EQ(value("gemmd_holdings", "apples", "tenant"), 3);
  EXPECT_EQ(value("gemmd_holdings", "apples", "address"), std::nullopt) << "none has any";
  EXPECT_EQ(value("gemmd_holdings_limit", "apples", "tenant"), 7);
  EXPECT_EQ(value("gemmd_holdings_bytes", "apple_bytes", "tenant"), 30);
  EXPECT_EQ(value("gemmd_holdings_limit_bytes", "apple_bytes", "tenant"), std::nullopt);
  EXPECT_EQ(value("gemmd_holdings_limit_bytes", "apple_bytes", "all"), 90);
}

// The page's rules are the parser's: families once, units at the ends of names, buckets that add
// up.
TEST_F(ServerMetricsTest, ThePageIsValidInBothForms) {
  for (const ExpositionForm form : {ExpositionForm::kPrometheus, ExpositionForm::kOpenMetrics}) {
    const auto page = ReadExposition(WriteExposition(CollectMetrics(sources_), form), form);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_EQ(page->Value("gemmd_requests_refused_total", {{"cause", "memory_share"}}), 0)
        << "a cause is there before it occurs, so that its rate is known from the first";
    EXPECT_EQ(page->Value("gemmd_http_requests_total", {{"outcome", "timed_out"}}), 1);
    EXPECT_EQ(page->Value("gemmd_certificate_expiry_timestamp_seconds"), 2e9);
    EXPECT_GT(page->Value("process_start_time_seconds").value_or(0), 1.7e9);
    EXPECT_GT(page->Value("process_resident_memory_bytes").value_or(0), 1e5);
  }
}

TEST_F(ServerMetricsTest, EachFamilySaysWhatItIs) {
  for (const MetricFamily& family : CollectMetrics(sources_)) {
    EXPECT_FALSE(family.help.empty()) << family.name;
  }
}

TEST_F(ServerMetricsTest, LaunchesAreCountedByFormAndBatch) {
  auto job = std::make_unique<Job>();
  job->id = 1;
  job->work.problem = MakeProblem(5, 4, 4, DataType::kF32, DataType::kF32);
  job->cost.device_us = job->cost.least_us = 10;
  job->reservation = *device_.memory().Reserve(100, 10);
  job->done = [](const absl::Status&, const Receipt&) {};
  ASSERT_TRUE(scheduler_.Submit(std::move(job)).ok());
  const auto page =
      ReadExposition(WriteExposition(CollectMetrics(sources_), ExpositionForm::kPrometheus),
                     ExpositionForm::kPrometheus);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->Value("gemmd_launches_total", {{"device", "fake"}, {"form", "alone"}}), 1);
  EXPECT_EQ(page->Value("gemmd_kernel_launches_total",
                        {{"device", "fake"}, {"kernel", "(other)"}, {"form", "alone"}}),
            1);
  EXPECT_EQ(page->Value("gemmd_batch_rows_bucket", {{"device", "fake"}, {"le", "4.0"}}), 0);
  EXPECT_EQ(page->Value("gemmd_batch_rows_bucket", {{"device", "fake"}, {"le", "8.0"}}), 1);
  EXPECT_EQ(page->Value("gemmd_batch_rows_sum", {{"device", "fake"}}), 5);
  EXPECT_EQ(page->Value("gemmd_device_memory_bytes", {{"device", "fake"}, {"kind", "in_flight"}}),
            100);
  while (device_.FinishOne()) {
  }
}

// Every sample's name that there may be, whether a machine has it or not.
std::set<std::string> AllNames(const std::vector<MetricFamily>& families) {
  std::set<std::string> names;
  for (const MetricFamily& family : families) {
    const std::string& name = family.name;
    switch (family.type) {
      case MetricType::kCounter:
        names.insert(name + "_total");
        break;
      case MetricType::kInfo:
        names.insert(name + "_info");
        break;
      case MetricType::kGauge:
        names.insert(name);
        break;
      case MetricType::kHistogram:
        for (const char* suffix : {"_bucket", "_sum", "_count"}) names.insert(name + suffix);
    }
  }
  return names;
}

// A dashboard or an alert that names what no server has shows nothing, for ever.
TEST_F(ServerMetricsTest, TracesAreCountedWithWhatTheCollectorDoesNotGet) {
  Receipt receipt;
  receipt.spans = {{Stage::kDecode, 0, 1}, {Stage::kCompute, 1, 2}};
  receipt.kernel = std::string(100, 'k');
  for (int i = 0; i < 10; ++i) tracer_.Take(absl::StatusCode::kOk, receipt);
  const OtlpExporter::Counts counts = tracer_.exporter()->counts();
  EXPECT_GT(counts.queue_full, 0U);
  EXPECT_EQ(counts.queue_full % 3, 0U) << "a request and two stages";
  std::map<std::string, double> values;
  for (const MetricFamily& family : CollectMetrics(sources_)) {
    if (family.name.rfind("gemmd_trace_", 0) != 0 && family.name.rfind("gemmd_otlp_", 0) != 0) {
      continue;
    }
    for (const MetricSample& sample : family.samples) {
      values[family.name + (sample.labels.empty() ? "" : "/" + sample.labels[0].second)] =
          sample.value;
    }
  }
  const std::map<std::string, double> expected = {
      {"gemmd_trace_ring_bytes", 1 << 16},
      {"gemmd_trace_requests", 10},
      {"gemmd_trace_requests_dropped", 0},
      {"gemmd_otlp_spans_sent", 0},
      {"gemmd_otlp_spans_dropped/queue_full", static_cast<double>(counts.queue_full)},
      {"gemmd_otlp_spans_dropped/refused", 0},
      {"gemmd_otlp_spans_dropped/unreachable", 0},
      {"gemmd_otlp_queue_bytes", static_cast<double>(counts.queued_bytes)}};
  EXPECT_EQ(values, expected);
}

TEST_F(ServerMetricsTest, FilesNameMetricsThatAreThere) {
  const GpuSensors none(NvmlFunctions{[] { return 1; }}, {}, kWhenTold, &clock_);
  sources_.gpus = &none;
  const std::vector<MetricFamily> families = CollectMetrics(sources_);
  const std::set<std::string> names = AllNames(families);
  std::set<std::string> unused = names;
  for (const char* path : {"deploy/observe/alerts.yaml", "deploy/observe/dashboard.json",
                           "deploy/observe/alerts_test.yaml", "docs/operations.md"}) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    const std::string all = text.str();
    ASSERT_FALSE(all.empty()) << path;
    const std::regex name("\\b(gemmd|process)_[a-z0-9_]+");
    for (std::sregex_iterator each(all.begin(), all.end(), name), end; each != end; ++each) {
      const std::string word = each->str();
      const bool is_histogram = names.count(word + "_bucket") != 0;
      EXPECT_TRUE(is_histogram || names.count(word) != 0) << path << ": " << word;
      unused.erase(word);
      for (const char* suffix : {"_bucket", "_sum", "_count"}) unused.erase(word + suffix);
    }
  }
  EXPECT_EQ(unused, std::set<std::string>()) << "docs/operations.md does not name them";
}

// Whatever names and messages come, the page does not grow, and neither does what the server keeps.
TEST_F(ServerMetricsTest, AMillionNamesLeaveTheSeriesWithinTheirBound) {
  constexpr int kNames = 1000000;
  std::uint64_t allocated = 0;
  const GpuSensors none(NvmlFunctions{[] { return 1; }}, {}, kWhenTold, &clock_);
  sources_.gpus = &none;
  for (int i = 0; i < kNames; ++i) {
    Receipt receipt;
    receipt.joules = 1;
    receipt.tenant = absl::StrCat("a-tenant-of-some-length-", i);
    receipt.kernel = absl::StrCat("sm90/a-kernel-of-some-length-", i);
    receipt.m = i;
    receipt.types = "bf16,int4(f16/1x32+zp)->bf16";
    receipt.finish = TimeNs{i} * 1'000'000;
    receipt.spans = {{static_cast<Stage>(i % kStageCount), 0, TimeNs{i} * 1000}};
    statistics_.RecordReceived();
    statistics_.RecordFinished(absl::StatusCode::kOk, receipt);
    statistics_.RecordReceived();
    const auto code = static_cast<absl::StatusCode>(1 + i % 16);
    statistics_.RecordRefused(absl::Status(code, absl::StrCat("message ", i)));
    if (i == kNames / 10) allocated = AllocatedBytes();
  }
  EXPECT_LE(AllocatedBytes(), allocated + (1 << 20));
  const std::vector<MetricFamily> families = CollectMetrics(sources_);
  const std::size_t most = MostSeries(1);
  EXPECT_LE(SeriesOf(families), most);
  EXPECT_LE(most, 1300u);
  const auto page = ReadExposition(WriteExposition(families, ExpositionForm::kPrometheus),
                                   ExpositionForm::kPrometheus);
  ASSERT_TRUE(page.ok()) << page.status();
  double of_tenants = 0;
  for (const ReadSample& each : page->Find("gemmd_tenant_requests_total")->samples) {
    of_tenants += each.value;
  }
  EXPECT_EQ(of_tenants, kNames);
  double joules = 0;
  for (const ReadSample& each : page->Find("gemmd_kernel_joules_total")->samples) {
    joules += each.value;
  }
  EXPECT_EQ(joules, kNames);
  double products = 0;
  for (const ReadSample& each : page->Find("gemmd_product_requests_total")->samples) {
    products += each.value;
    EXPECT_EQ(each.labels.count("shape") + each.labels.count("types"), 2u);
  }
  EXPECT_EQ(products, kNames);
}

}  // namespace
}  // namespace gemmd
