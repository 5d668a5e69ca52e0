#include "server/observe/statistics.h"

#include "gtest/gtest.h"

namespace gemmd {
namespace {

TEST(Statistics, EveryReceivedRequestIsFinishedOnceOrInFlight) {
  Statistics statistics;
  for (int i = 0; i < 4; ++i) statistics.RecordReceived();
  statistics.RecordRefused(absl::StatusCode::kInvalidArgument);
  statistics.RecordAdmitted();
  statistics.RecordAdmitted();
  Receipt receipt;
  receipt.flops = 10;
  receipt.payload_bytes_in = 3;
  receipt.payload_bytes_out = 4;
  receipt.spans = {{Stage::kCompute, 10, 30}, {Stage::kCompute, 40, 45}};
  statistics.RecordFinished(absl::StatusCode::kOk, receipt);
  statistics.RecordFinished(absl::StatusCode::kCancelled, receipt);

  const Statistics::Snapshot totals = statistics.Read();
  EXPECT_EQ(totals.received, 4u);
  EXPECT_EQ(totals.admitted, 2u);
  EXPECT_EQ(totals.in_flight, 1u);
  EXPECT_EQ(totals.finished, (std::map<std::string, std::uint64_t>{
                                 {"CANCELLED", 1}, {"INVALID_ARGUMENT", 1}, {"OK", 1}}));
  EXPECT_EQ(totals.flops, 10);
  EXPECT_EQ(totals.payload_bytes_in, 3u);
  EXPECT_EQ(totals.payload_bytes_out, 4u);
  EXPECT_EQ(totals.stages[static_cast<int>(Stage::kCompute)].count, 2u);
  EXPECT_EQ(totals.stages[static_cast<int>(Stage::kCompute)].sum, 25);
  EXPECT_EQ(totals.stages[static_cast<int>(Stage::kCompute)].max, 20);
}

}  // namespace
}  // namespace gemmd
