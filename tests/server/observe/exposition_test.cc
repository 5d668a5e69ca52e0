#include "server/observe/exposition.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>

#include "gtest/gtest.h"
#include "tests/testing/exposition_parser.h"

namespace gemmd {
namespace {

constexpr ExpositionForm kForms[] = {ExpositionForm::kPrometheus, ExpositionForm::kOpenMetrics};
const std::string kReplacement = "\xef\xbf\xbd";

ReadPage Read(const std::vector<MetricFamily>& families, ExpositionForm form) {
  const std::string text = WriteExposition(families, form);
  const absl::StatusOr<ReadPage> page = ReadExposition(text, form);
  EXPECT_TRUE(page.ok()) << page.status() << "\n" << text;
  return page.value_or(ReadPage());
}

MetricFamily Histogram() {
  MetricFamily family{"wait_seconds", MetricType::kHistogram, "seconds", "How \"long\" \\", {}};
  MetricSample sample;
  sample.labels = {{"stage", "queue"}};
  sample.buckets.bounds = {0.5, 1};
  sample.buckets.counts = {2, 0, 3};
  sample.buckets.sum = 12.25;
  sample.buckets.exemplars = {Exemplar{{{"request_id", "7"}}, 0.25}, std::nullopt, std::nullopt};
  family.samples.push_back(sample);
  return family;
}

TEST(Exposition, IsPrometheusText) {
  MetricFamily counter{"sent_bytes", MetricType::kCounter, "bytes", "Bytes\nsent.", {}};
  counter.Add({{"to", "a\"b"}}, 3);
  MetricFamily info{"build", MetricType::kInfo, "", "What runs.", {}};
  info.Add({{"version", "1"}}, 1);
  EXPECT_EQ(WriteExposition({counter, info, Histogram()}, ExpositionForm::kPrometheus),
            R"(# HELP sent_bytes_total Bytes\nsent.
# TYPE sent_bytes_total counter
sent_bytes_total{to="a\"b"} 3
# HELP build_info What runs.
# TYPE build_info gauge
build_info{version="1"} 1
# HELP wait_seconds How "long" \\
# TYPE wait_seconds histogram
wait_seconds_bucket{stage="queue",le="0.5"} 2
wait_seconds_bucket{stage="queue",le="1.0"} 2
wait_seconds_bucket{stage="queue",le="+Inf"} 5
wait_seconds_sum{stage="queue"} 12.25
wait_seconds_count{stage="queue"} 5
)");
}

TEST(Exposition, IsOpenMetrics) {
  MetricFamily counter{"sent_bytes", MetricType::kCounter, "bytes", "Bytes\nsent.", {}};
  counter.Add({}, 3);
  MetricFamily info{"build", MetricType::kInfo, "", "What runs.", {}};
  info.Add({{"version", "1"}}, 1);
  EXPECT_EQ(WriteExposition({counter, info, Histogram()}, ExpositionForm::kOpenMetrics),
            R"(# HELP sent_bytes Bytes\nsent.
# TYPE sent_bytes counter
# UNIT sent_bytes bytes
sent_bytes_total 3
# HELP build What runs.
# TYPE build info
build_info{version="1"} 1
# HELP wait_seconds How \"long\" \\
# TYPE wait_seconds histogram
# UNIT wait_seconds seconds
wait_seconds_bucket{stage="queue",le="0.5"} 2 # {request_id="7"} 0.25
wait_seconds_bucket{stage="queue",le="1.0"} 2
wait_seconds_bucket{stage="queue",le="+Inf"} 5
wait_seconds_sum{stage="queue"} 12.25
wait_seconds_count{stage="queue"} 5
# EOF
)");
}

TEST(Exposition, EveryByteIsReadBackOrReplaced) {
  for (const ExpositionForm form : kForms) {
    for (int byte = 0; byte < 256; ++byte) {
      const std::string text = std::string("a") + static_cast<char>(byte) + "z";
      const std::string expected = byte < 0x80 ? text : "a" + kReplacement + "z";
      MetricFamily family{"some", MetricType::kGauge, "", text, {}};
      family.Add({{"label", text}}, 1);
      const ReadPage page = Read({family}, form);
      ASSERT_EQ(page.families.size(), 1u) << byte;
      EXPECT_EQ(page.families[0].help, expected) << byte;
      EXPECT_EQ(page.families[0].samples[0].labels.at("label"), expected) << byte;
    }
  }
}

TEST(Exposition, CharactersStayWholeAndWhatIsNoneIsReplaced) {
  const std::string r = kReplacement;
  const std::pair<std::string, std::string> cases[] = {
      {"\xc2\x80", "\xc2\x80"},
      {"\xe0\xa0\x80", "\xe0\xa0\x80"},
      {"\xed\x9f\xbf", "\xed\x9f\xbf"},
      {"\xf0\x90\x80\x80", "\xf0\x90\x80\x80"},
      {"\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"},
      {"\xc1\xbf", r + r},                  // longer than needed
      {"\xe0\x9f\xbf", r + r + r},          // the same
      {"\xf0\x8f\xbf\xbf", r + r + r + r},  // the same
      {"\xed\xa0\x80", r + r + r},          // a surrogate
      {"\xf4\x90\x80\x80", r + r + r + r},  // over U+10FFFF
      {"\xe2\x82", r + r},                  // cut off
      {"\xe2\x82\"", r + r + "\""},         // the same, before what is escaped
      {"\xc3\n", r + "\n"},
  };
  for (const ExpositionForm form : kForms) {
    for (const auto& [text, expected] : cases) {
      MetricFamily family{"some", MetricType::kGauge, "", "Help.", {}};
      family.Add({{"label", text}}, 1);
      EXPECT_EQ(Read({family}, form).families[0].samples[0].labels.at("label"), expected);
    }
  }
}

TEST(Exposition, NumbersAreReadBackAsTheyWere) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100000; ++i) {
    double value = 0;
    const std::uint64_t bits = random();
    static_assert(sizeof(bits) == sizeof(value));
    std::memcpy(&value, &bits, sizeof(value));
    if (std::isnan(value) || std::isinf(value) || std::fpclassify(value) == FP_SUBNORMAL) continue;
    EXPECT_EQ(std::stod(MetricNumber(value)), value);
  }
  EXPECT_EQ(MetricNumber(0), "0");
  EXPECT_EQ(MetricNumber(-3), "-3");
  EXPECT_EQ(MetricNumber(9007199254740991), "9007199254740991");
  EXPECT_EQ(MetricNumber(0.1), "0.1");
  EXPECT_EQ(MetricNumber(std::numeric_limits<double>::infinity()), "+Inf");
  EXPECT_EQ(MetricNumber(-std::numeric_limits<double>::infinity()), "-Inf");
  EXPECT_EQ(MetricNumber(std::numeric_limits<double>::quiet_NaN()), "NaN");
}

TEST(Exposition, LeavesOutWhatIsEmptyOrTooLong) {
  const MetricFamily nothing{"nothing", MetricType::kGauge, "", "Help.", {}};
  EXPECT_EQ(WriteExposition({nothing}, ExpositionForm::kPrometheus), "");
  EXPECT_EQ(WriteExposition({nothing}, ExpositionForm::kOpenMetrics), "# EOF\n");

  MetricFamily family = Histogram();
  MetricLabels& labels = family.samples[0].buckets.exemplars[0]->labels;
  // 125 characters of 3 bytes, and the name's.
  std::string value;
  for (int i = 0; i < 125; ++i) value += kReplacement;
  labels = {{"abc", value}};
  const auto has_exemplar = [&family] {
    return WriteExposition({family}, ExpositionForm::kOpenMetrics).find(" # {") !=
           std::string::npos;
  };
  EXPECT_TRUE(has_exemplar());
  labels = {{"abcd", value}};
  EXPECT_FALSE(has_exemplar());
}

// Any families come back as they were.
class RandomFamilies {
 public:
  explicit RandomFamilies(unsigned seed) : random_(seed) {}

  std::vector<MetricFamily> Make() {
    std::vector<MetricFamily> families(1 + Below(5));
    for (std::size_t i = 0; i < families.size(); ++i) {
      MetricFamily& family = families[i];
      family.unit = Below(2) == 0 ? "" : "seconds";
      family.name = "m" + std::to_string(i) + (family.unit.empty() ? "" : "_seconds");
      family.type = static_cast<MetricType>(Below(family.unit.empty() ? 4 : 3));
      family.help = "h" + Text();
      for (std::size_t j = 0, count = 1 + Below(4); j < count; ++j) {
        MetricSample sample;
        sample.labels = {{"id", std::to_string(j)}, {"text", Text()}};
        sample.value = static_cast<double>(Below(1000000)) / 64;
        if (family.type == MetricType::kHistogram) sample.buckets = Buckets();
        family.samples.push_back(std::move(sample));
      }
    }
    return families;
  }

 private:
  std::size_t Below(std::size_t bound) { return random_() % bound; }
  std::string Text() {
    static const std::string bytes = "ab\"\\\n{}=, #\t";
    std::string text;
    for (std::size_t i = Below(12); i > 0; --i) text += bytes[Below(bytes.size())];
    return text;
  }
  MetricBuckets Buckets() {
    MetricBuckets buckets;
    for (std::size_t i = 0, count = Below(6); i < count; ++i) {
      buckets.bounds.push_back((static_cast<double>(i) + 1) / 4);
    }
    for (std::size_t i = 0; i <= buckets.bounds.size(); ++i) {
      buckets.counts.push_back(Below(100));
      buckets.exemplars.emplace_back();
      if (Below(2) == 0) {
        buckets.exemplars.back() = Exemplar{{{"e", Text()}}, static_cast<double>(i) / 4 + 0.125};
      }
    }
    buckets.sum = static_cast<double>(Below(1000)) / 8;
    return buckets;
  }

  std::mt19937 random_;
};

void ExpectBuckets(const MetricSample& sample, const ReadFamily& read, bool is_open,
                   std::size_t* next) {
  double count = 0;
  for (std::size_t i = 0; i < sample.buckets.counts.size(); ++i, ++*next) {
    count += static_cast<double>(sample.buckets.counts[i]);
    const ReadSample& bucket = read.samples[*next];
    EXPECT_EQ(bucket.value, count);
    if (i < sample.buckets.bounds.size()) {
      EXPECT_EQ(std::stod(bucket.labels.at("le")), sample.buckets.bounds[i]);
    }
    const std::optional<Exemplar>& exemplar = sample.buckets.exemplars[i];
    ASSERT_EQ(bucket.exemplar.has_value(), is_open && exemplar.has_value());
    if (!bucket.exemplar.has_value()) continue;
    EXPECT_EQ(bucket.exemplar->value, exemplar->value);
    EXPECT_EQ(bucket.exemplar->labels.at("e"), exemplar->labels[0].second);
  }
  EXPECT_EQ(read.samples[(*next)++].value, sample.buckets.sum);
  EXPECT_EQ(read.samples[(*next)++].value, count);
}

TEST(Exposition, RandomFamiliesAreReadBackAsTheyWere) {
  RandomFamilies random(1);
  for (int round = 0; round < 500; ++round) {
    const std::vector<MetricFamily> families = random.Make();
    for (const ExpositionForm form : kForms) {
      const bool is_open = form == ExpositionForm::kOpenMetrics;
      const ReadPage page = Read(families, form);
      ASSERT_EQ(page.families.size(), families.size());
      for (std::size_t i = 0; i < families.size(); ++i) {
        const MetricFamily& family = families[i];
        const ReadFamily& read = page.families[i];
        EXPECT_EQ(read.help, family.help);
        EXPECT_EQ(read.unit, is_open ? family.unit : "");
        std::size_t next = 0;
        for (const MetricSample& sample : family.samples) {
          ASSERT_LT(next, read.samples.size());
          EXPECT_EQ(read.samples[next].labels.at("text"), sample.labels[1].second);
          if (family.type == MetricType::kHistogram) {
            ExpectBuckets(sample, read, is_open, &next);
          } else {
            EXPECT_EQ(read.samples[next++].value, sample.value);
          }
        }
        EXPECT_EQ(next, read.samples.size());
      }
    }
  }
}

// The reader would find these.
TEST(ExpositionParser, RefusesWhatIsNotWellFormed) {
  const std::string head = "# HELP a_total A.\n# TYPE a_total counter\n";
  EXPECT_TRUE(ReadExposition(head + "a_total 1\n", ExpositionForm::kPrometheus).ok());
  for (const char* line :
       {"a_total 1", "a_total x\n", "a_total -1\n", "a_total{b=\"\n\"} 1\n", "b_total 1\n",
        "a_total{b=\"1\",b=\"2\"} 1\n", "a_total 1\na_total 2\n", "a_total{b=\"\\x\"} 1\n",
        "a_total{le=\"1\"} 1\n", "a_total 1 # {x=\"y\"} 1\n", ""}) {
    EXPECT_FALSE(ReadExposition(head + line, ExpositionForm::kPrometheus).ok()) << line;
  }
  const std::string open = "# HELP a A.\n# TYPE a counter\na_total 1\n";
  EXPECT_TRUE(ReadExposition(open + "# EOF\n", ExpositionForm::kOpenMetrics).ok());
  EXPECT_FALSE(ReadExposition(open, ExpositionForm::kOpenMetrics).ok());
  EXPECT_FALSE(ReadExposition(open + "# EOF\n\n", ExpositionForm::kOpenMetrics).ok());
}

}  // namespace
}  // namespace gemmd
