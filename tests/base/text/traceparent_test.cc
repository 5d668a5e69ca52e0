#include "base/text/traceparent.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace gemmd {
namespace {

// The example of the W3C recommendation.
constexpr char kExample[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

std::string With(std::size_t at, absl::string_view text) {
  std::string changed = kExample;
  changed.replace(at, text.size(), text.data(), text.size());
  return changed;
}

TEST(TraceparentTest, ReadsTheExample) {
  const absl::StatusOr<TraceContext> context = ParseTraceparent("traceparent", kExample);
  ASSERT_TRUE(context.ok()) << context.status();
  EXPECT_EQ(ToHex(context->trace_id.data(), 16), "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(ToHex(context->parent_id.data(), 8), "00f067aa0ba902b7");
  EXPECT_TRUE(context->is_sampled());
  EXPECT_EQ(ToTraceparent(*context), kExample);
  EXPECT_FALSE(ParseTraceparent("traceparent", With(53, "02"))->is_sampled());
  EXPECT_EQ(ToTraceparent(*ParseTraceparent("traceparent", With(53, "fe"))), With(53, "fe"));
}

TEST(TraceparentTest, RefusesAllElseOfVersion00) {
  const std::string example = kExample;
  for (const std::string& bad :
       {std::string(), example.substr(1), example + "-", example + "-00", example + " ",
        With(3, "G"), With(3, "4B"), With(36, "00F"), With(2, "_"), With(35, "_"), With(52, "_"),
        With(53, "0x"), With(3, std::string(32, '0')), With(36, std::string(16, '0')),
        With(0, "ff"), With(0, "0G"), With(10, std::string(1, '\0'))}) {
    const absl::Status status = ParseTraceparent("traceparent", bad).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
  }
  EXPECT_EQ(ParseTraceparent("--traceparent", "x").status().message(),
            "--traceparent is \"x\": it has 1 characters; VERSION-TRACE-PARENT-FLAGS has 55");
}

TEST(TraceparentTest, LaterVersionsMaySayMore) {
  for (const std::string& good : {With(0, "01"), With(0, "01") + "-more", With(0, "cc") + "-"}) {
    EXPECT_TRUE(ParseTraceparent("traceparent", good).ok()) << good;
  }
  for (const std::string& bad :
       {With(0, "01") + "more", With(0, "01") + "0", With(0, "01") + "-\n"}) {
    EXPECT_FALSE(ParseTraceparent("traceparent", bad).ok()) << bad;
  }
  // Later versions may give the other flags a meaning.
  EXPECT_EQ(ParseTraceparent("traceparent", With(53, "ff"))->flags, 0xff);
  std::string later = With(0, "01");
  later.replace(53, 2, "ff");
  EXPECT_EQ(ParseTraceparent("traceparent", later)->flags, 1);
}

TEST(TracestateTest, TakesListsOfMembers) {
  for (const char* good :
       {"", "rojo=00f067aa0ba902b7", "a=b, c=d,,e=f", "t3nant@system=x y", "0=1", "a_-*/b=!"}) {
    EXPECT_TRUE(CheckTracestate("tracestate", good).ok()) << good;
  }
  for (const char* bad : {"a", "=b", "a=", "A=b", "_a=b", "a=b,a=c", "a=b=c", "a=\tb", "a@b@c=d",
                          "a=\x7f", "a b=c"}) {
    EXPECT_FALSE(CheckTracestate("tracestate", bad).ok()) << bad;
  }
}

TEST(TracestateTest, HasLimits) {
  std::string members;
  for (int i = 0; i < 32; ++i) absl::StrAppend(&members, i == 0 ? "" : ",", "k", i, "=v");
  EXPECT_TRUE(CheckTracestate("tracestate", members).ok());
  EXPECT_FALSE(CheckTracestate("tracestate", members + ",x=v").ok());
  EXPECT_TRUE(CheckTracestate("tracestate", std::string(256, 'k') + "=v").ok());
  EXPECT_FALSE(CheckTracestate("tracestate", std::string(257, 'k') + "=v").ok());
  EXPECT_TRUE(CheckTracestate("tracestate", "k=" + std::string(256, 'v')).ok());
  EXPECT_FALSE(CheckTracestate("tracestate", "k=" + std::string(257, 'v')).ok());
  EXPECT_FALSE(CheckTracestate("tracestate", "a=b" + std::string(510, ',')).ok());
}

TEST(TraceOriginTest, SaysNothingOfWhatIsWrong) {
  EXPECT_FALSE(ReadTraceOrigin("", "a=b").context.has_value());
  EXPECT_EQ(ReadTraceOrigin("", "a=b").state, "");
  EXPECT_EQ(ReadTraceOrigin("nonsense", "a=b").state, "");
  EXPECT_TRUE(ReadTraceOrigin(kExample, "nonsense").context.has_value());
  EXPECT_EQ(ReadTraceOrigin(kExample, "nonsense").state, "");
  EXPECT_EQ(ReadTraceOrigin(kExample, "a=b").state, "a=b");
}

}  // namespace
}  // namespace gemmd
