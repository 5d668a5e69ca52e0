#include "server/trace/otlp_json.h"

#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/trace/otlp_endpoint.h"
#include "tests/server/trace/receipts.h"

namespace gemmd {
namespace {

using Json = nlohmann::json;
using testing::SomeReceipt;

Json SpansOfAll(const std::vector<Timeline>& timelines) {
  const Json request = Json::parse(ToOtlpJson(timelines, {1, 1'000'000'000'000, "1.2"}));
  EXPECT_EQ(request.size(), 1U);
  EXPECT_EQ(request["resourceSpans"].size(), 1U);
  const Json& resource = request["resourceSpans"][0];
  const Json& name = resource["resource"]["attributes"][0];
  EXPECT_EQ(name["key"], "service.name");
  EXPECT_EQ(name["value"]["stringValue"], "gemmd");
  EXPECT_EQ(resource["scopeSpans"].size(), 1U);
  EXPECT_EQ(resource["scopeSpans"][0]["scope"]["version"], "1.2");
  return resource["scopeSpans"][0]["spans"];
}

Timeline Of(const Receipt& receipt, absl::StatusCode code = absl::StatusCode::kOk) {
  Timeline timeline;
  timeline.code = code;
  timeline.receipt = receipt;
  return timeline;
}

TEST(OtlpJsonTest, ARequestIsASpanAndItsStagesAreWithinIt) {
  Receipt receipt = SomeReceipt();
  receipt.trace = ReadTraceOrigin("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "a=b");
  const Json spans = SpansOfAll({Of(receipt)});
  ASSERT_EQ(spans.size(), 1 + receipt.spans.size());
  const Json& request = spans[0];
  EXPECT_EQ(request["traceId"], "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(request["parentSpanId"], "00f067aa0ba902b7");
  EXPECT_EQ(request["traceState"], "a=b");
  EXPECT_EQ(request["kind"], 2);
  EXPECT_EQ(request["startTimeUnixNano"], "1001000000000");
  EXPECT_EQ(request["endTimeUnixNano"], "1001000900000");
  EXPECT_TRUE(request["status"].empty());
  std::set<std::string> ids;
  for (const Json& span : spans) {
    const auto id = span["spanId"].get<std::string>();
    EXPECT_EQ(id.size(), 16U);
    EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos);
    EXPECT_TRUE(ids.insert(id).second) << id;
    EXPECT_EQ(span["traceId"], request["traceId"]);
  }
  constexpr TimeNs kOffset = 1'000'000'000'000;
  for (std::size_t i = 0; i < receipt.spans.size(); ++i) {
    const StageSpan& stage = receipt.spans[i];
    EXPECT_EQ(spans[i + 1]["parentSpanId"], request["spanId"]);
    EXPECT_EQ(spans[i + 1]["name"], std::string(Name(stage.stage)));
    EXPECT_EQ(spans[i + 1]["startTimeUnixNano"], std::to_string(stage.start + kOffset));
    EXPECT_EQ(spans[i + 1]["endTimeUnixNano"], std::to_string(stage.end + kOffset));
  }
}

TEST(OtlpJsonTest, WithoutATraceEachRequestIsOneOfItsOwn) {
  const Json spans = SpansOfAll({Of(SomeReceipt(1)), Of(SomeReceipt(2))});
  EXPECT_EQ(spans[0]["traceId"].get<std::string>().size(), 32U);
  EXPECT_NE(spans[0]["traceId"], spans[1 + kStageCount]["traceId"]);
  EXPECT_FALSE(spans[0].contains("parentSpanId"));
  EXPECT_FALSE(spans[0].contains("traceState"));
}

TEST(OtlpJsonTest, AFailureSaysSo) {
  const Json spans = SpansOfAll({Of(SomeReceipt(), absl::StatusCode::kDataLoss)});
  EXPECT_EQ(spans[0]["status"]["code"], 2);
  EXPECT_EQ(spans[0]["status"]["message"], "DATA_LOSS");
  EXPECT_TRUE(spans[1]["status"].empty());
}

TEST(OtlpJsonTest, ANameThatIsNoUtf8DoesNoHarm) {
  Receipt receipt = SomeReceipt();
  receipt.tenant = "\xc3";
  EXPECT_EQ(SpansOfAll({Of(receipt)}).size(), 1 + kStageCount);
}

TEST(OtlpJsonTest, ReadsWhatACollectorRejects) {
  EXPECT_EQ(RejectedSpans(R"({"partialSuccess":{"rejectedSpans":"3","errorMessage":"x"}})"), 3U);
  EXPECT_EQ(RejectedSpans(R"({"partialSuccess":{"rejectedSpans":4}})"), 4U);
  for (const char* none : {"", "{}", "[]", "garbage", "{\"partialSuccess\":3}", "\xff",
                           R"({"partialSuccess":{"rejectedSpans":-1}})",
                           R"({"partialSuccess":{"rejectedSpans":"many"}})"}) {
    EXPECT_EQ(RejectedSpans(none), 0U) << none;
  }
}

std::string Read(const char* url) {
  const absl::StatusOr<OtlpEndpoint> endpoint = ParseOtlpEndpoint(url);
  EXPECT_TRUE(endpoint.ok()) << endpoint.status();
  return endpoint.ok() ? endpoint->authority() + endpoint->target : "";
}

TEST(OtlpEndpointTest, ReadsWhatPeopleWrite) {
  EXPECT_EQ(Read("http://collector"), "collector:4318/v1/traces");
  EXPECT_EQ(Read("http://collector/"), "collector:4318/v1/traces");
  EXPECT_EQ(Read("http://127.0.0.1:80/x/y?z"), "127.0.0.1:80/x/y?z");
  EXPECT_EQ(Read("http://[::1]:4318/v1/traces"), "[::1]:4318/v1/traces");
  for (const char* bad : {"", "collector:4318", "https://collector", "http://", "http:///v1",
                          "http://h:0", "http://h:", "http://h:65536", "http://h:x", "http://u@h",
                          "http://h/#f", "http://h/a b", "http://h/\r\n"}) {
    EXPECT_FALSE(ParseOtlpEndpoint(bad).ok()) << bad;
  }
  EXPECT_EQ(ParseOtlpEndpoint("https://h").status().message().substr(0, 69),
            "observe.otlp_endpoint is \"https://h\": there is no TLS to a collector;");
}

}  // namespace
}  // namespace gemmd
