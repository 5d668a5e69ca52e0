#include "server/trace/timeline.h"

#include <limits>
#include <random>
#include <string>

#include "gtest/gtest.h"
#include "tests/server/trace/receipts.h"

namespace gemmd {
namespace {

using testing::SomeReceipt;

constexpr char kParent[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

Timeline Again(absl::StatusCode code, const Receipt& receipt) {
  const TimelineBytes bytes(code, receipt);
  const std::optional<Timeline> timeline = ReadTimeline(bytes.view());
  EXPECT_TRUE(timeline.has_value());
  return timeline.value_or(Timeline());
}

void ExpectSameSpans(const Receipt& x, const Receipt& y, std::size_t count) {
  ASSERT_GE(x.spans.size(), count);
  ASSERT_EQ(y.spans.size(), count);
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_EQ(x.spans[i].stage, y.spans[i].stage);
    EXPECT_EQ(x.spans[i].start, y.spans[i].start);
    EXPECT_EQ(x.spans[i].end, y.spans[i].end);
  }
}

TEST(TimelineTest, IsReadAsItWasWritten) {
  Receipt receipt = SomeReceipt();
  receipt.determinism = Determinism::kFast;
  receipt.verification_residual = 0.25;
  receipt.trace = ReadTraceOrigin(kParent, "a=b");
  const Timeline again = Again(absl::StatusCode::kOk, receipt);
  const Receipt& read = again.receipt;
  EXPECT_EQ(again.code, absl::StatusCode::kOk);
  EXPECT_TRUE(again.tenant_is_whole);
  EXPECT_EQ(again.spans_left_out, 0U);
  EXPECT_EQ(read.request_id, receipt.request_id);
  EXPECT_EQ(read.arrival, receipt.arrival);
  EXPECT_EQ(read.finish, receipt.finish);
  EXPECT_EQ(read.launch, receipt.launch);
  EXPECT_EQ(read.connection, receipt.connection);
  EXPECT_EQ(read.tenant, receipt.tenant);
  EXPECT_EQ(read.device, receipt.device);
  EXPECT_EQ(read.kernel, receipt.kernel);
  EXPECT_EQ(read.plan, receipt.plan);
  EXPECT_EQ(read.numerics_id, receipt.numerics_id);
  EXPECT_EQ(read.determinism, receipt.determinism);
  EXPECT_EQ(read.batch_requests, receipt.batch_requests);
  EXPECT_EQ(read.batch_rows, receipt.batch_rows);
  EXPECT_EQ(read.flops, receipt.flops);
  EXPECT_EQ(read.batch_flops, receipt.batch_flops);
  EXPECT_EQ(read.payload_bytes_in, receipt.payload_bytes_in);
  EXPECT_EQ(read.payload_bytes_out, receipt.payload_bytes_out);
  EXPECT_EQ(read.shared_bytes_in, receipt.shared_bytes_in);
  EXPECT_EQ(read.shared_bytes_out, receipt.shared_bytes_out);
  EXPECT_EQ(read.copied_bytes_in, receipt.copied_bytes_in);
  EXPECT_EQ(read.copied_bytes_out, receipt.copied_bytes_out);
  EXPECT_EQ(read.landed_bytes, receipt.landed_bytes);
  EXPECT_EQ(read.evicted_bytes, receipt.evicted_bytes);
  EXPECT_EQ(read.verification_residual, receipt.verification_residual);
  EXPECT_EQ(ToTraceparent(*read.trace.context), kParent);
  EXPECT_EQ(read.trace.state, "a=b");
  ExpectSameSpans(receipt, read, receipt.spans.size());
}

TEST(TimelineTest, AUsualRequestTakesOneSlot) {
  EXPECT_LE(TimelineBytes(absl::StatusCode::kOk, SomeReceipt()).view().size(), 240U);
}

TEST(TimelineTest, TheLargestFitsWhateverItHas) {
  constexpr std::uint64_t kLargest = std::numeric_limits<std::uint64_t>::max();
  Receipt receipt = SomeReceipt(kLargest);
  receipt.arrival = receipt.finish = std::numeric_limits<TimeNs>::max() / 2;
  receipt.launch = receipt.connection = receipt.batch_requests = receipt.batch_rows = kLargest;
  receipt.payload_bytes_in = receipt.payload_bytes_out = kLargest;
  receipt.shared_bytes_in = receipt.shared_bytes_out = kLargest;
  receipt.copied_bytes_in = receipt.copied_bytes_out = kLargest;
  receipt.landed_bytes = receipt.evicted_bytes = kLargest;
  receipt.tenant = std::string(5000, 't');
  receipt.device = receipt.kernel = receipt.plan = receipt.numerics_id = std::string(5000, 'x');
  receipt.verification_residual = 1;
  receipt.trace = ReadTraceOrigin(kParent, "a=b");
  receipt.trace.state = std::string(512, 's');
  receipt.spans.assign(1000, {Stage::kCompute, 0, std::numeric_limits<TimeNs>::max() / 2});
  const Timeline again = Again(absl::StatusCode::kDataLoss, receipt);
  EXPECT_EQ(again.code, absl::StatusCode::kDataLoss);
  EXPECT_FALSE(again.tenant_is_whole);
  EXPECT_EQ(again.receipt.tenant, std::string(512, 't'));
  EXPECT_EQ(again.receipt.kernel, std::string(128, 'x'));
  EXPECT_EQ(again.receipt.trace.state, receipt.trace.state);
  EXPECT_GE(again.receipt.spans.size(), 80U);
  EXPECT_EQ(again.receipt.spans.size() + again.spans_left_out, 1000U);
  ExpectSameSpans(receipt, again.receipt, again.receipt.spans.size());
}

TEST(TimelineTest, AFailedRequestEndsWithItsLastStage) {
  Receipt receipt = SomeReceipt();
  receipt.finish = 0;
  EXPECT_EQ(Again(absl::StatusCode::kDataLoss, receipt).receipt.finish, receipt.spans.back().end);
  receipt.spans.clear();
  EXPECT_EQ(Again(absl::StatusCode::kCancelled, receipt).receipt.finish, receipt.arrival);
}

TEST(TimelineTest, OtherBytesAreNone) {
  const TimelineBytes bytes(absl::StatusCode::kOk, SomeReceipt());
  const std::string whole(bytes.view());
  EXPECT_FALSE(ReadTimeline(whole + "x").has_value());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(ReadTimeline(whole.substr(0, size)).has_value()) << size;
  }
}

}  // namespace
}  // namespace gemmd
