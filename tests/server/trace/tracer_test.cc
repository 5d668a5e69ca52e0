#include "server/trace/tracer.h"

#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/trace/receipts.h"

namespace gemmd {
namespace {

using testing::SomeReceipt;

class TakesAll final : public SpanSender {
 public:
  SendOutcome Send(const std::string& /*body*/, std::chrono::milliseconds /*timeout*/) override {
    return {SendOutcome::Kind::kTaken, 0};
  }
  void Interrupt() override {}
};

std::unique_ptr<OtlpExporter> Exporter() {
  OtlpExporter::Options options;
  options.period = std::chrono::hours(1);
  return std::make_unique<OtlpExporter>(options, std::make_unique<TakesAll>(),
                                        [](const std::vector<Timeline>&) { return ""; });
}

Receipt Traced(std::uint64_t id, const char* flags) {
  Receipt receipt = SomeReceipt(id);
  const std::string parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-";
  receipt.trace = ReadTraceOrigin(parent + flags, "");
  return receipt;
}

TEST(TracerTest, RemembersAllAndSendsSamples) {
  Tracer tracer({1 << 16, 0, 1}, Exporter());
  tracer.Take(absl::StatusCode::kOk, SomeReceipt(1));
  EXPECT_EQ(tracer.exporter()->counts().queued_bytes, 0U);
  tracer.Take(absl::StatusCode::kOk, Traced(2, "00"));
  EXPECT_EQ(tracer.exporter()->counts().queued_bytes, 0U);
  tracer.Take(absl::StatusCode::kDataLoss, Traced(3, "01"));
  EXPECT_GT(tracer.exporter()->counts().queued_bytes, 0U);
  std::vector<std::uint64_t> ids;
  std::vector<absl::StatusCode> codes;
  tracer.Read([&](const Timeline& timeline) {
    ids.push_back(timeline.receipt.request_id);
    codes.push_back(timeline.code);
  });
  EXPECT_EQ(ids, (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_EQ(codes.back(), absl::StatusCode::kDataLoss);
}

TEST(TracerTest, SamplesTheShareThatWasAskedFor) {
  constexpr int kRequests = 20'000;
  for (const std::uint32_t per_million : {0U, 250'000U, 1'000'000U}) {
    const Tracer tracer({0, per_million, 99}, nullptr);
    int sampled = 0;
    for (int i = 0; i < kRequests; ++i) {
      Receipt receipt;
      receipt.request_id = static_cast<std::uint64_t>(i);
      sampled += tracer.IsSampled(receipt) ? 1 : 0;
    }
    // 10 standard deviations at most, and none at the ends.
    const double p = per_million / 1e6;
    EXPECT_NEAR(sampled, kRequests * p, 10 * 62 * (p > 0 && p < 1 ? 1 : 0)) << per_million;
  }
}

TEST(TracerTest, WithoutARingItStillSends) {
  Tracer tracer({0, 1'000'000, 1}, Exporter());
  tracer.Take(absl::StatusCode::kOk, SomeReceipt());
  EXPECT_GT(tracer.exporter()->counts().queued_bytes, 0U);
  EXPECT_EQ(tracer.ring().bytes(), 0U);
}

}  // namespace
}  // namespace gemmd
