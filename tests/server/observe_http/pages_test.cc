#include "server/observe_http/pages.h"

#include <cstdio>
#include <fstream>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
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
  EXPECT_EQ(Get("/no/such/page").code, HttpCode::kNotFound);
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
    for (const char* host :
         {"evil.example", "evil.example:9090", "localhost.evil.example",
          "127.0.0.1.evil.example:80", "unix", "unix:9090", "10.0.0.1:9090", "[2001:db8::1]:9090",
          "0.0.0.0:9090", "localhost:80:80", "[::1", "[]"}) {
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

TEST(Console, NumbersAreJsonWhateverTheirLabels) {
  MetricFamily counter;
  counter.name = "gemmd_tests";
  counter.type = MetricType::kCounter;
  counter.Add({{"tenant", "a\"\xff<"}}, 3);
  MetricFamily times;
  times.name = "gemmd_times_seconds";
  times.type = MetricType::kHistogram;
  times.samples.push_back({{}, 0, {{0.5, 1}, {2, 0, 1}, 4.5, {}}});
  Receipt receipt;
  receipt.request_id = 7;
  receipt.finish = 3000;
  receipt.spans = {{Stage::kCompute, 0, 2000}};
  const nlohmann::json read =
      nlohmann::json::parse(ConsoleNumbers(1'500'000'000, {counter, times}, {receipt}));
  EXPECT_EQ(read["seconds"], 1.5);
  EXPECT_EQ(read["families"]["gemmd_tests_total"][0]["value"], 3);
  EXPECT_EQ(read["families"]["gemmd_times_seconds"][0]["count"], 3);
  EXPECT_EQ(read["families"]["gemmd_times_seconds"][0]["sum"], 4.5);
  EXPECT_EQ(read["slow"][0]["exposed_us"]["compute"], 2.0);
  EXPECT_EQ(read["slow"][0]["exposed_us"]["unattributed"], 1.0);
  EXPECT_EQ(read["slow"][0]["total_us"], 3.0);
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
