#include "server/observe/slow_log.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace gemmd {
namespace {

constexpr TimeNs kMillisecond = 1'000'000;

Receipt ReceiptOf(std::uint64_t id, TimeNs arrival, TimeNs finish) {
  Receipt receipt;
  receipt.request_id = id;
  receipt.arrival = arrival;
  receipt.finish = finish;
  receipt.tenant = "alice";
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

TEST(SlowLog, ALineHasTheReceipt) {
  SlowLog log({kMillisecond, 1});
  ::testing::internal::CaptureStderr();
  log.Record(ReceiptOf(7, 1'000'000'000, 1'000'000'000 + 20 * kMillisecond));
  const std::string text = ::testing::internal::GetCapturedStderr();
  for (const char* part : {R"("event":"slow_request")", R"("request_id":7)", R"("tenant":"alice")",
                           R"("total_us":20000.0)", R"("queue_us":19000.0)",
                           R"("compute_us":1000.0)", R"("left_out":0)"}) {
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
  constexpr TimeNs kSecond = 1'000'000'000;
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

}  // namespace
}  // namespace gemmd
