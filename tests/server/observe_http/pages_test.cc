#include "server/observe_http/pages.h"

#include <cstdio>
#include <fstream>
#include <set>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/digest/sha256.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/observe_http/console.h"
#include "tests/testing/exposition_parser.h"
#include "tests/testing/fake_clock.h"

namespace gemmd {
namespace {

std::string TokenEntry(const std::string& token, const std::string& role) {
  Sha256 hash;
  hash.Update(token);
  const Sha256Digest digest = hash.Finish();
  const absl::string_view bytes(reinterpret_cast<const char*>(digest.data()), digest.size());
  return absl::StrCat("token { name: \"", token, "\" tenant: \"t\" role: ", role, " sha256: \"",
                      absl::BytesToHexString(bytes), "\" }\n");
}

class PagesTest : public ::testing::Test {
 protected:
  PagesTest() {
    std::ofstream(path_) << TokenEntry("observer", "OBSERVER") << TokenEntry("operator", "OPERATOR")
                         << TokenEntry("user", "USER");
    file_ = *PolicyFile::Open(path_, std::chrono::milliseconds(0));
  }
  ~PagesTest() override { std::remove(path_.c_str()); }

  HttpAnswer Get(const std::string& path, const std::vector<std::string>& authorization = {},
                 const PageAccess::Options& options = {}, const std::string& peer = "10.0.0.9:4711",
                 const std::string& accept = "", const std::string& host = "") {
    const PageAccess access(file_.get(), &audit_, options);
    const Pages pages({&access, is_loopback_, [this] { return is_draining_; },
                       [] {
                         MetricFamily family;
                         family.name = "gemmd_tests";
                         family.type = MetricType::kCounter;
                         family.help = "of this test";
                         family.Add({}, 3);
                         return std::vector<MetricFamily>{family};
                       },
                       [] { return std::string(R"({"families":{}})"); }});
    HttpRequest request;
    request.path = path;
    request.peer = peer;
    request.accept = accept;
    request.host = host;
    request.authorization = authorization;
    return pages.Answer(request);
  }

  const std::string path_ = ::testing::TempDir() + "/pages-policy.textproto";
  testing::FakeClock clock_;
  AuditLog audit_{&clock_};
  std::unique_ptr<PolicyFile> file_;
  bool is_loopback_ = false;
  bool is_draining_ = false;
};

constexpr PageAccess::Options kEncrypted = {true, false};

TEST_F(PagesTest, HealthIsForEverybody) {
  EXPECT_EQ(Get("/healthz").code, HttpCode::kOk);
  EXPECT_EQ(Get("/readyz").code, HttpCode::kOk);
  is_draining_ = true;
  EXPECT_EQ(Get("/healthz").code, HttpCode::kOk) << "a server that drains must not be killed";
  EXPECT_EQ(Get("/readyz").code, HttpCode::kUnavailable);
}

TEST_F(PagesTest, WhatIsNoPageNamesThoseThereAre) {
  const HttpAnswer missing = Get("/no/such/page");
  EXPECT_EQ(missing.code, HttpCode::kNotFound);
  std::set<std::string> named;
  for (absl::string_view word : absl::StrSplit(missing.body, absl::ByAnyChar(" ,\n"))) {
    if (absl::StartsWith(word, "/")) named.emplace(word);
  }
  EXPECT_EQ(named,
            (std::set<std::string>{"/", "/console.json", "/metrics", "/healthz", "/readyz"}));
  for (const std::string& path : named) {
    EXPECT_NE(Get(path).code, HttpCode::kNotFound) << path;
  }
}

// DNS rebinding: a foreign page's own name leads to loopback, and its browser says that name.
TEST_F(PagesTest, OnLoopbackARequestNamesThisHost) {
  const auto code = [this](const std::string& path, const std::string& host) {
    return Get(path, {}, {}, "127.0.0.1:4711", "", host).code;
  };
  for (const char* path : {"/", "/metrics", "/console.json", "/healthz", "/readyz"}) {
    EXPECT_NE(code(path, "evil.example:9090"), HttpCode::kForbidden) << "others reach it anyway";
  }
  is_loopback_ = true;
  for (const char* path : {"/", "/metrics", "/console.json", "/healthz", "/readyz"}) {
    for (const char* host : {"evil.example", "evil.example:9090", "localhost.evil.example",
                             "127.0.0.1.evil.example:80", "unix", "unix:9090", "10.0.0.1:9090",
                             "[2001:db8::1]:9090", "0.0.0.0:9090", "localhost:80:80", "[::1", "[]",
                             "127.0.0.1:9090, evil.example", "localhost:http"}) {
      EXPECT_EQ(code(path, host), HttpCode::kForbidden) << path << " of " << host;
    }
  }
  for (const char* host : {"localhost", "LOCALHOST:9090", "127.0.0.1:9090", "127.8.9.10",
                           "[::1]:9090", "[::1]", "gemmd.localhost:9090", ""}) {
    EXPECT_EQ(code("/healthz", host), HttpCode::kOk) << host;
  }
  const HttpAnswer refusal = Get("/metrics", {}, {}, "127.0.0.1:4711", "", "evil.example:9090");
  EXPECT_EQ(refusal.body,
            "Host is \"evil.example:9090\"; it must be localhost or an address of loopback, as the "
            "listener's\n");
}

// The page itself tells nothing; what it asks for is for those who watch.
TEST_F(PagesTest, TheConsoleIsAPageWithoutNumbers) {
  const HttpAnswer page = Get("/");
  EXPECT_EQ(page.code, HttpCode::kOk);
  EXPECT_EQ(page.body, ConsolePage());
  EXPECT_EQ(Get("/console.json", {}, kEncrypted).code, HttpCode::kUnauthorized);
  EXPECT_EQ(Get("/console.json", {"Bearer user"}, kEncrypted).code, HttpCode::kForbidden);
  const HttpAnswer numbers = Get("/console.json", {"Bearer observer"}, kEncrypted);
  EXPECT_EQ(numbers.body, R"({"families":{}})");
  EXPECT_EQ(numbers.content_type, "application/json");
}

// Its own script and style by their digests, this server, and nothing else.
TEST_F(PagesTest, TheConsolesPolicyNamesWhatIsOnThePage) {
  const HttpAnswer page = Get("/");
  ASSERT_FALSE(page.headers.empty());
  EXPECT_EQ(page.headers[0].first, "Content-Security-Policy");
  const std::string& policy = page.headers[0].second;
  EXPECT_TRUE(absl::StartsWith(policy, "default-src 'none'; script-src 'sha256-")) << policy;
  EXPECT_FALSE(absl::StrContains(policy, "unsafe"));
  for (const char* foreign : {"src=", "@import", "url(", "https://", "cdn"}) {
    EXPECT_FALSE(absl::StrContains(page.body, foreign)) << foreign;
  }
}

ConsoleView ViewOf(const std::string& name) {
  ConsoleView view;
  view.now = 1'500'000'000;
  view.server = {"0.2.0", name, "127.0.0.1:50051", 500'000'000};
  MetricFamily counter;
  counter.name = "gemmd_tests";
  counter.type = MetricType::kCounter;
  counter.Add({{"tenant", name}}, 3);
  MetricFamily times;
  times.name = "gemmd_times_seconds";
  times.type = MetricType::kHistogram;
  times.samples.push_back({{}, 0, {{0.5, 1}, {2, 0, 1}, 4.5, {}}});
  view.families = {counter, times};
  Receipt receipt;
  receipt.request_id = 7;
  receipt.finish = 3'000'000;
  receipt.tenant = name;
  receipt.endpoint = "10.0.0.9:4711";
  receipt.m = 64;
  receipt.n = 4096;
  receipt.k = 1024;
  receipt.types = "bf16,f32->f32";
  receipt.trace = ReadTraceOrigin("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "");
  receipt.spans = {{Stage::kCompute, 0, 2'000'000}};
  view.slow = {receipt};
  return view;
}

// Names of clients' choosing are strings of valid JSON, whatever bytes they have.
TEST(Console, NumbersAreJsonWhateverTheirLabels) {
  for (const std::string& name :
       {std::string("a\"\xff<"), std::string("</script><script>alert(1)</script>"),
        std::string("\0\n\r\t\x1b[2J", 8), std::string("\xe2\x80\xa8\\u0022"),
        std::string(100000, '"')}) {
    const nlohmann::json read =
        nlohmann::json::parse(ConsoleNumbers(ViewOf(name)), nullptr, /*allow_exceptions=*/false);
    ASSERT_FALSE(read.is_discarded()) << name;
    const nlohmann::json& counter = read["families"]["gemmd_tests_total"][0];
    EXPECT_EQ(counter["value"], 3);
    EXPECT_EQ(counter["labels"]["tenant"], read["slow"][0]["tenant"]);
    if (name.find('\xff') == std::string::npos) {
      EXPECT_EQ(read["slow"][0]["tenant"], name);
    }
  }
}

TEST(Console, NumbersHaveTheirSchema) {
  const nlohmann::json read = nlohmann::json::parse(ConsoleNumbers(ViewOf("alice")));
  EXPECT_EQ(read["seconds"], 1.5);
  EXPECT_EQ(read["server"], nlohmann::json({{"version", "0.2.0"},
                                            {"host", "alice"},
                                            {"address", "127.0.0.1:50051"},
                                            {"uptime_seconds", 1.0}}));
  EXPECT_EQ(read["families"]["gemmd_times_seconds"][0]["count"], 3);
  EXPECT_EQ(read["families"]["gemmd_times_seconds"][0]["sum"], 4.5);
  EXPECT_EQ(
      read["slow"][0],
      nlohmann::json({{"request_id", 7},
                      {"finish", 0.003},
                      {"tenant", "alice"},
                      {"peer", "10.0.0.9:4711"},
                      {"traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
                      {"m", 64},
                      {"n", 4096},
                      {"k", 1024},
                      {"products", 1},
                      {"types", "bf16,f32->f32"},
                      {"device", ""},
                      {"kernel", ""},
                      {"batch_requests", 0},
                      {"total_us", 3000.0},
                      {"exposed_us", {{"compute", 2000.0}, {"unattributed", 1000.0}}}}));
}

// A curve's lists are equally long, of a fresh server and of an old one, and a page of any age has
// a bounded size.
TEST(Console, CurvesAreListsOfOneLength) {
  ConsoleView view = ViewOf("alice");
  HistorySample sample;
  for (int look = 0; look < 5000; ++look) {
    if (look < 3 || look > 4998) {
      const nlohmann::json history = nlohmann::json::parse(ConsoleNumbers(view))["history"];
      for (const char* name : {"recent", "hour"}) {
        const HistoryRing& ring = name[0] == 'r' ? view.history.recent : view.history.hour;
        EXPECT_EQ(history[name]["period_seconds"], name[0] == 'r' ? 2 : 10);
        EXPECT_EQ(history[name]["points"].size(), 9u);
        for (const auto& [key, list] : history[name]["points"].items()) {
          EXPECT_EQ(list.size(), ring.points().size()) << key;
          for (const auto& value : list) {
            EXPECT_TRUE(value.is_number() || (key[0] == 'p' && value.is_null())) << key << value;
          }
        }
      }
    }
    sample.ok += static_cast<std::uint64_t>(look) % 100;
    sample.flops += 12345.678 * look;
    if (look % 7 != 0) sample.durations.Add(look * 1000);
    view.history.recent.Add(TimeNs{look} * 2'000'000'001, sample);
    view.history.hour.Add(TimeNs{look} * 2'000'000'001, sample);
  }
  EXPECT_LT(ConsoleNumbers(view).size(), 64u << 10);
}

TEST_F(PagesTest, MetricsAreForThoseWhoWatch) {
  EXPECT_EQ(Get("/metrics", {"Bearer observer"}, kEncrypted).code, HttpCode::kOk);
  EXPECT_EQ(Get("/metrics", {"bearer operator"}, kEncrypted).code, HttpCode::kOk);
  EXPECT_EQ(Get("/metrics", {"Bearer user"}, kEncrypted).code, HttpCode::kForbidden);
  const HttpAnswer refusal = Get("/metrics", {"Bearer nobodys"}, kEncrypted);
  EXPECT_EQ(refusal.code, HttpCode::kUnauthorized);
  ASSERT_EQ(refusal.headers.size(), 1u);
  EXPECT_EQ(refusal.headers[0].first, "WWW-Authenticate");
  EXPECT_FALSE(absl::StrContains(refusal.body, "gemmd_tests"));
  EXPECT_EQ(Get("/metrics", {}, kEncrypted).code, HttpCode::kUnauthorized);
}

TEST_F(PagesTest, WhatIsNoBearerTokenIsRefused) {
  for (const char* value : {"Basic b2JzZXJ2ZXI=", "Bearer ", "observer", ""}) {
    EXPECT_EQ(Get("/metrics", {value}, kEncrypted).code, HttpCode::kBadRequest) << value;
  }
  EXPECT_EQ(Get("/metrics", {"Bearer observer", "Bearer user"}, kEncrypted).code,
            HttpCode::kBadRequest);
  EXPECT_EQ(Get("/metrics", {"Bearer observer", "Bearer observer"}, kEncrypted).code,
            HttpCode::kOk);
}

TEST_F(PagesTest, ATokenThatOthersMayHaveReadIsRefused) {
  const std::vector<std::string> token = {"Bearer observer"};
  EXPECT_EQ(Get("/metrics", token).code, HttpCode::kUnauthorized);
  EXPECT_EQ(Get("/metrics", token, {false, true}).code, HttpCode::kOk);
  for (const char* local : {"127.0.0.1:1", "[::1]:1", "unix"}) {
    EXPECT_EQ(Get("/metrics", token, {}, local).code, HttpCode::kOk) << local;
  }
}

TEST_F(PagesTest, TheFormIsTheOneAskedFor) {
  const auto get = [this](const std::string& accept) {
    return Get("/metrics", {"Bearer observer"}, kEncrypted, "10.0.0.9:1", accept);
  };
  const HttpAnswer plain = get("text/html");
  EXPECT_TRUE(absl::StartsWith(plain.content_type, "text/plain; version=0.0.4"));
  EXPECT_TRUE(ReadExposition(plain.body, ExpositionForm::kPrometheus).ok());
  // As Prometheus 2.42 asks.
  const HttpAnswer open =
      get("application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;"
          "q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1");
  EXPECT_TRUE(absl::StartsWith(open.content_type, "application/openmetrics-text"));
  const auto page = ReadExposition(open.body, ExpositionForm::kOpenMetrics);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->Value("gemmd_tests_total"), 3);
}

}  // namespace
}  // namespace gemmd
