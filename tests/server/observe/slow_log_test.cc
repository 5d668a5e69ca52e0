#include "server/observe/slow_log.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/time/units.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace gemmd {
namespace {

Receipt ReceiptOf(std::uint64_t id, TimeNs arrival, TimeNs finish) {
  Receipt receipt;
  receipt.request_id = id;
  receipt.arrival = arrival;
  receipt.finish = finish;
  receipt.tenant = "alice";
  receipt.endpoint = "10.0.0.9:4711";
  receipt.m = 64;
  receipt.n = 4096;
  receipt.k = 1024;
  receipt.types = "bf16,f32->f32";
  receipt.trace = ReadTraceOrigin("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "");
  receipt.kernel = "cpu/panel_f32";
  receipt.spans = {{Stage::kQueue, arrival, finish},
                   {Stage::kCompute, finish - kMillisecond, finish}};
  return receipt;
}

std::size_t Lines(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

TEST(SlowLog, SlowIsLongerThanTheThreshold) {
  const SlowLog log({10 * kMillisecond, 1});
  EXPECT_FALSE(log.IsSlow(ReceiptOf(1, 0, 10 * kMillisecond)));
  EXPECT_TRUE(log.IsSlow(ReceiptOf(1, 0, 10 * kMillisecond + 1)));
  const SlowLog off({0, 1});
  EXPECT_FALSE(off.IsSlow(ReceiptOf(1, 0, 1000 * kMillisecond)));
}

TEST(SlowLog, WhatIsSlowAndHowManyLinesMayChange) {
  SlowLog log({0, 1});
  const Receipt receipt = ReceiptOf(1, 0, 10 * kMillisecond);
  log.SetOptions({5 * kMillisecond, 2});
  EXPECT_TRUE(log.IsSlow(receipt));
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 100; ++i) log.Record(receipt);
  EXPECT_EQ(Lines(::testing::internal::GetCapturedStderr()), 20u);
  log.SetOptions({20 * kMillisecond, 2});
  EXPECT_FALSE(log.IsSlow(receipt));
}

TEST(SlowLog, ALineHasTheReceipt) {
  SlowLog log({kMillisecond, 1});
  ::testing::internal::CaptureStderr();
  log.Record(ReceiptOf(7, 1'000'000'000, 1'000'000'000 + 20 * kMillisecond));
  const std::string text = ::testing::internal::GetCapturedStderr();
  for (const char* part :
       {R"("event":"slow_request")", R"("request_id":7)", R"("tenant":"alice")",
        R"("peer":"10.0.0.9:4711")", R"("m":64)", R"("n":4096)", R"("k":1024)", R"("products":1)",
        R"("types":"bf16,f32->f32")",
        R"("traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")",
        R"("total_us":20000.0)", R"("queue_us":19000.0)", R"("compute_us":1000.0)",
        R"("left_out":0)"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  }
}

// Ten times a second's lines at once, then those of the rate; a line says what was left out.
TEST(SlowLog, LinesAreBoundedAndTheOthersAreCounted) {
  SlowLog log({kMillisecond, 2});
  const auto record = [&log](std::uint64_t count, TimeNs at) {
    ::testing::internal::CaptureStderr();
    for (std::uint64_t i = 0; i < count; ++i) log.Record(ReceiptOf(i, at - 2 * kMillisecond, at));
    return ::testing::internal::GetCapturedStderr();
  };
  constexpr TimeNs kStart = 100'000'000'000;
  EXPECT_EQ(Lines(record(1000, kStart)), 20u);
  const std::string next = record(1000, kStart + kSecond);
  EXPECT_EQ(Lines(next), 2u);
  EXPECT_NE(next.find(R"("left_out":980)"), std::string::npos) << next;
}

TEST(SlowLog, TheLastAreRememberedNewestFirst) {
  SlowLog log({kMillisecond, 1});
  ::testing::internal::CaptureStderr();
  for (std::uint64_t i = 0; i < 100; ++i) log.Record(ReceiptOf(i, 0, 5 * kMillisecond));
  ::testing::internal::GetCapturedStderr();
  const std::vector<Receipt> recent = log.recent();
  ASSERT_EQ(recent.size(), SlowLog::kRemembered);
  EXPECT_EQ(recent.front().request_id, 99u);
  EXPECT_EQ(recent.back().request_id, 100 - SlowLog::kRemembered);
}

// A certificate may name its holder by any bytes, and by thousands of them.
TEST(SlowLog, AHostileNameIsOneShortLineOfJson) {
  for (const std::string& name :
       {std::string("\"},\n{\"event\":\"forged\""), std::string("\xff\xfe\0\x1b[2J", 7),
        std::string(100000, '"'), std::string(100000, '\xc3')}) {
    SlowLog log({kMillisecond, 1});
    Receipt receipt = ReceiptOf(1, 0, 5 * kMillisecond);
    receipt.tenant = "auth:" + name;
    ::testing::internal::CaptureStderr();
    log.Record(receipt);
    const std::string text = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(Lines(text), 1u);
    EXPECT_LT(text.size(), 2048u);
    const nlohmann::json line = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    ASSERT_FALSE(line.is_discarded()) << text;
    EXPECT_EQ(line["event"], "slow_request");
    EXPECT_EQ(line["tenant"].get<std::string>().substr(0, 5), "auth:");
    EXPECT_LE(log.recent().front().tenant.size(), 131u);
  }
}

}  // namespace
}  // namespace gemmd
