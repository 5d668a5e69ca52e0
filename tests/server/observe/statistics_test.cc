#include "server/observe/statistics.h"

#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace gemmd {
namespace {

TEST(Statistics, EveryReceivedRequestIsFinishedOnceOrInFlight) {
  Statistics statistics;
  for (int i = 0; i < 4; ++i) statistics.RecordReceived();
  statistics.RecordRefused(absl::StatusCode::kInvalidArgument);
  Receipt receipt;
  receipt.flops = 10;
  receipt.payload_bytes_in = 3;
  receipt.payload_bytes_out = 4;
  receipt.spans = {{Stage::kCompute, 10, 30}, {Stage::kCompute, 40, 45}};
  statistics.RecordFinished(absl::StatusCode::kOk, receipt);
  statistics.RecordFinished(absl::StatusCode::kCancelled, receipt);

  const Statistics::Snapshot totals = statistics.Read();
  EXPECT_EQ(totals.received, 4u);
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

TEST(Statistics, ARefusalCountsByItsCauseAndElseByItsCode) {
  Statistics statistics;
  for (int i = 0; i < 4; ++i) statistics.RecordReceived();
  const absl::Status full = absl::ResourceExhaustedError("full");
  statistics.RecordRefused(WithCause(full, RefusalCause::kQueue));
  statistics.RecordRefused(WithCause(WithCause(full, RefusalCause::kQuota), RefusalCause::kQueue));
  statistics.RecordRefused(full);
  statistics.RecordRefused(absl::NotFoundError("no such operand"));
  const Statistics::Snapshot totals = statistics.Read();
  const auto of = [&totals](RefusalCause cause) {
    return totals.refused[static_cast<std::size_t>(cause)];
  };
  EXPECT_EQ(of(RefusalCause::kQueue), 1u);
  EXPECT_EQ(of(RefusalCause::kQuota), 1u) << "who refused first knows best";
  EXPECT_EQ(of(RefusalCause::kOther), 1u);
  EXPECT_EQ(of(RefusalCause::kNotFound), 1u);
  EXPECT_EQ(totals.finished.at("RESOURCE_EXHAUSTED"), 3u);
}

TEST(Statistics, EachCauseHasANameOfItsOwn) {
  std::set<absl::string_view> names;
  for (std::size_t i = 0; i < kRefusalCauses; ++i) {
    names.insert(Name(static_cast<RefusalCause>(i)));
  }
  EXPECT_EQ(names.size(), kRefusalCauses);
  EXPECT_EQ(Name(RefusalCause::kMemoryShare), "memory_share");
  EXPECT_EQ(Name(RefusalCause::kStalled), "stalled");
  EXPECT_EQ(Name(RefusalCause::kOther), "other");
}

TEST(Statistics, DurationsFallIntoTheBucketOfTheirBound) {
  EXPECT_EQ(DurationHistogram::BucketOf(0), 0u);
  EXPECT_EQ(DurationHistogram::BucketOf(kDurationBounds[0]), 0u);
  for (std::size_t i = 0; i < kDurationBounds.size(); ++i) {
    EXPECT_EQ(DurationHistogram::BucketOf(kDurationBounds[i]), i);
    EXPECT_EQ(DurationHistogram::BucketOf(kDurationBounds[i] + 1), i + 1) << "they ascend";
  }
}

// A launch that two share is shared by their FLOPs.
TEST(Statistics, NamesAreBoundedAndLoseNothing) {
  Statistics statistics;
  constexpr int kRequests = 100000;
  for (int i = 0; i < kRequests; ++i) {
    Receipt receipt;
    receipt.tenant = absl::StrCat("tenant-", i);
    receipt.kernel = absl::StrCat("sm90/", i);
    receipt.m = i;
    receipt.types = "f32";
    receipt.flops = 2;
    receipt.batch_flops = 4;
    receipt.payload_bytes_in = 3;
    receipt.spans = {{Stage::kCompute, 0, 1000}};
    receipt.finish = TimeNs{i} * 10'000'000;  // over 16 periods of the tables
    statistics.RecordReceived();
    statistics.RecordFinished(i % 2 == 0 ? absl::StatusCode::kOk : absl::StatusCode::kInternal,
                              receipt);
  }
  const Statistics::ByName by_name = statistics.ReadByName();
  EXPECT_EQ(by_name.tenants.size(), Statistics::kTenants);
  EXPECT_EQ(by_name.kernels.size(), Statistics::kKernels);
  EXPECT_EQ(by_name.products.size(), Statistics::kProducts);
  Statistics::TenantTotals tenants = by_name.other_tenants;
  for (const auto& [name, totals] : by_name.tenants) tenants += totals;
  EXPECT_EQ(tenants.ok, kRequests / 2u);
  EXPECT_EQ(tenants.failed, kRequests / 2u);
  EXPECT_EQ(tenants.payload_bytes, 3u * kRequests / 2);
  Statistics::KernelTotals kernels = by_name.other_kernels;
  for (const auto& [name, totals] : by_name.kernels) kernels += totals;
  EXPECT_EQ(kernels.requests, kRequests / 2u);
  EXPECT_DOUBLE_EQ(kernels.flops, kRequests);
  EXPECT_NEAR(kernels.compute_seconds, kRequests * 0.25e-6, 1e-9);
  Statistics::KernelTotals products = by_name.other_products;
  for (const auto& [name, totals] : by_name.products) products += totals;
  EXPECT_EQ(products.requests, kRequests / 2u);
  EXPECT_DOUBLE_EQ(products.flops, kRequests);
  EXPECT_NEAR(products.compute_seconds, kRequests * 0.25e-6, 1e-9);
}

TEST(Statistics, ProductsAreToldApartByShapeAndTypes) {
  Statistics statistics;
  const auto finish = [&statistics](std::int64_t m, const std::string& types, double flops) {
    Receipt receipt;
    receipt.m = m;
    receipt.n = 3;
    receipt.k = 4;
    receipt.types = types;
    receipt.flops = flops;
    statistics.RecordReceived();
    statistics.RecordFinished(absl::StatusCode::kOk, receipt);
  };
  finish(2, "f32", 48);
  finish(2, "f32", 48);
  finish(2, "bf16,bf16->f32", 48);
  finish(5, "f32", 120);
  std::map<std::string, std::pair<std::uint64_t, double>> found;
  for (const auto& [name, totals] : statistics.ReadByName().products) {
    found[name] = {totals.requests, totals.flops};
  }
  EXPECT_EQ(
      found,
      (std::map<std::string, std::pair<std::uint64_t, double>>{
          {"2x3x4 f32", {2, 96}}, {"2x3x4 bf16,bf16->f32", {1, 48}}, {"5x3x4 f32", {1, 120}}}));
}

}  // namespace
}  // namespace gemmd
