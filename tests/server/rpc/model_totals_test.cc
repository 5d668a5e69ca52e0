#include "server/rpc/oip/model_totals.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace gemmd {
namespace {

// 100 ns in all: 10 of decoding, 20 of waiting, 30 of computing, 15 of encoding.
Receipt SomeReceipt(std::uint64_t launch) {
  Receipt receipt;
  receipt.arrival = 1000;
  receipt.finish = 1100;
  receipt.launch = launch;
  receipt.spans = {{Stage::kDecode, 1000, 1010},
                   {Stage::kQueue, 1010, 1030},
                   {Stage::kCompute, 1030, 1060},
                   {Stage::kEncode, 1085, 1100}};
  return receipt;
}

TEST(ModelTotals, EveryStageIsOfWhatWasServed) {
  ModelTotals totals;
  totals.RecordSuccess("t", "m", SomeReceipt(1), 5);
  totals.RecordSuccess("t", "m", SomeReceipt(1), 6);
  totals.RecordSuccess("t", "m", SomeReceipt(2), 7);
  totals.RecordFailure("t", "m", 40);
  const inference::ModelStatistics wire = EncodeStatistics("m", totals.Read("t", "m"));
  EXPECT_EQ(wire.inference_count(), 3U);
  EXPECT_EQ(wire.execution_count(), 2U) << "two were of one launch";
  EXPECT_EQ(wire.last_inference(), 7U);
  const inference::InferStatistics& stats = wire.inference_stats();
  EXPECT_EQ(stats.success().count(), 3U);
  EXPECT_EQ(stats.success().ns(), 300U);
  EXPECT_EQ(stats.fail().count(), 1U);
  EXPECT_EQ(stats.fail().ns(), 40U);
  EXPECT_EQ(stats.queue().count(), 3U);
  EXPECT_EQ(stats.queue().ns(), 60U);
  EXPECT_EQ(stats.compute_input().count(), 3U);
  EXPECT_EQ(stats.compute_input().ns(), 30U);
  EXPECT_EQ(stats.compute_infer().ns(), 90U);
  EXPECT_EQ(stats.compute_output().ns(), 45U);
}

TEST(ModelTotals, LaunchesThatEndMixedCountOnce) {
  ModelTotals totals;
  for (int i = 0; i < 10; ++i) {
    for (const std::uint64_t launch : {7U, 8U}) {
      totals.RecordSuccess("t", "m", SomeReceipt(launch), 0);
    }
  }
  EXPECT_EQ(totals.Read("t", "m").launches, 2U);
}

TEST(ModelTotals, TenantsDoNotSeeEachOther) {
  ModelTotals totals;
  totals.RecordFailure("a", "m", 1);
  totals.RecordFailure("ab", "m", 1);
  EXPECT_EQ(totals.ReadAll("a").size(), 1U);
  EXPECT_TRUE(totals.ReadAll("").empty());
  EXPECT_EQ(totals.Read("b", "m").fail.count, 0U);
}

TEST(ModelTotals, ATenantKeepsTheRowsThatItUsed) {
  ModelTotals totals({100, 3});
  for (const char* model : {"1", "2", "3"}) totals.RecordFailure("t", model, 1);
  totals.RecordFailure("other", "1", 1);
  totals.RecordFailure("t", "1", 1);
  totals.RecordFailure("t", "4", 1);
  EXPECT_EQ(totals.ReadAll("t").size(), 3U);
  EXPECT_EQ(totals.Read("t", "1").fail.count, 2U);
  EXPECT_EQ(totals.Read("t", "2").fail.count, 0U) << "it was longest without a request";
  EXPECT_EQ(totals.ReadAll("other").size(), 1U);
}

TEST(ModelTotals, AllRowsTogetherAreBounded) {
  ModelTotals totals({4, 3});
  for (int i = 0; i < 100; ++i) totals.RecordFailure(std::to_string(i), "m", 1);
  std::size_t rows = 0;
  for (int i = 0; i < 100; ++i) rows += totals.ReadAll(std::to_string(i)).size();
  EXPECT_EQ(rows, 4U);
  EXPECT_EQ(totals.ReadAll("99").size(), 1U);
}

// Beside a list of rows, the one used last at its end.
TEST(ModelTotals, ARandomHistoryLeavesTheRowsUsedLast) {
  constexpr std::size_t kRows = 12;
  constexpr std::size_t kTenantRows = 5;
  struct Expected {
    std::string tenant;
    std::string model;
    std::uint64_t failures = 0;
  };
  ModelTotals totals({kRows, kTenantRows});
  std::vector<Expected> rows;
  std::mt19937 random(1);
  for (int step = 0; step < 20000; ++step) {
    Expected row = {std::to_string(random() % 5), std::to_string(random() % 8), 0};
    totals.RecordFailure(row.tenant, row.model, 1);
    const auto is_tenants = [&row](const Expected& each) { return each.tenant == row.tenant; };
    const auto known = std::find_if(rows.begin(), rows.end(), [&row](const Expected& each) {
      return each.tenant == row.tenant && each.model == row.model;
    });
    if (known != rows.end()) {
      row.failures = known->failures;
      rows.erase(known);
    } else {
      if (std::count_if(rows.begin(), rows.end(), is_tenants) == kTenantRows) {
        rows.erase(std::find_if(rows.begin(), rows.end(), is_tenants));
      }
      if (rows.size() == kRows) rows.erase(rows.begin());
    }
    ++row.failures;
    rows.push_back(row);
    std::size_t there = 0;
    for (int tenant = 0; tenant < 5; ++tenant) {
      there += totals.ReadAll(std::to_string(tenant)).size();
    }
    ASSERT_EQ(there, rows.size()) << "step " << step;
    for (const Expected& each : rows) {
      ASSERT_EQ(totals.Read(each.tenant, each.model).fail.count, each.failures)
          << "step " << step << ": " << each.tenant << ", " << each.model;
    }
  }
}

}  // namespace
}  // namespace gemmd
