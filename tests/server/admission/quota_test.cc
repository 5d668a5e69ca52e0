// Tests what a request takes of its tenant's quota, and when it gives that back.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/time/units.h"
#include "gtest/gtest.h"
#include "server/admission/admission.h"
#include "server/holdings/quotas.h"
#include "server/tenants/retry_after.h"
#include "tests/testing/fake_alarm.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_device.h"
#include "tests/testing/fake_kernel.h"

namespace gemmd {
namespace {

using absl::StatusCode;

constexpr auto kCarrier = Admission::Carrier::kMessage;
constexpr std::uint64_t kSize = 16;
constexpr std::uint64_t kPlaneBytes = kSize * kSize * 4;

Tenant With(Quota quota, const std::string& name = "a") {
  quota.account = name;
  return Tenant::Named(name)->With(std::make_shared<const Quota>(std::move(quota)));
}

Quota Limit(Quantity quantity, std::uint64_t limit) {
  Quota quota;
  quota.limits[static_cast<std::size_t>(quantity)] = limit;
  return quota;
}

class QuotaTest : public ::testing::Test {
 protected:
  QuotaTest() {
    limits_.request_bytes = 1 << 30;
    limits_.result_bytes = 1 << 26;
    ClientPolicy policy;
    policy.quotas = &quotas_;
    policy.room = &room_;
    policy.high_priority_tenants = {"urgent"};
    admission_ = std::make_unique<Admission>(limits_, &testing::OneFakeKernel(), &router_, &clock_,
                                             AdmissionHelpers(), policy);
  }

  static WaitingRoom::Bounds Bounds() {
    WaitingRoom::Bounds bounds;
    bounds.requests = 64;
    bounds.bytes = 1 << 20;
    return bounds;
  }

  static MatmulCall Call(const Tenant& tenant, std::uint64_t n = kSize) {
    OperandSpec operand;
    operand.data = {DataType::kF32, n, n, Order::kRowMajor, 0};
    MatmulCall call;
    call.a = call.b = operand;
    call.tenant = tenant;
    call.peer = "10.0.0.1";
    return call;
  }

  using Admitted = std::unique_ptr<AdmittedMatmul>;
  absl::StatusOr<Admitted> Admit(const MatmulCall& call) {
    return admission_->Admit(call, kNoDeadline, kCarrier);
  }
  absl::Status Submit(Admitted request) {
    const std::string zeros(kPlaneBytes, '\0');
    const absl::string_view piece = zeros;
    for (const OperandName operand : {OperandName::kA, OperandName::kB}) {
      const absl::Status s = request->payload().Receive(
          {operand, PlaneName::kData, 0, absl::MakeConstSpan(&piece, 1)});
      if (!s.ok()) return s;
    }
    return admission_->Submit(
        admission_->NextRequestId(), std::move(request), {},
        [this](MatmulOutcome outcome) { outcomes_.push_back(std::move(outcome)); });
  }
  Amounts Held(const Tenant& tenant) const { return quotas_.UseOf(tenant).amounts; }

  testing::FakeClock clock_;
  testing::FakeDevice device_{&clock_, 1 << 20, 1};
  testing::FakeAlarm alarm_;
  Scheduler scheduler_{&device_, &clock_, &alarm_, testing::BoundOf(1000)};
  Router router_{{{&device_, &scheduler_}}};
  RequestLimits limits_;
  int reported_ = 0;
  Quotas quotas_{&clock_, [this](const Tenant&, const absl::Status&) { ++reported_; }};
  WaitingRoom room_{Bounds(), &clock_, std::chrono::milliseconds(0)};
  std::unique_ptr<Admission> admission_;
  std::vector<MatmulOutcome> outcomes_;
};

TEST_F(QuotaTest, ARequestCountsUntilItEndsAndItsResultUntilItIsSent) {
  const Tenant tenant = With(Limit(Quantity::kRequests, 1));
  absl::StatusOr<Admitted> request = Admit(Call(tenant));
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(Held(tenant), (Amounts{1, 3 * kPlaneBytes, 0, 0}));
  const absl::Status refused = Admit(Call(tenant)).status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.message(),
            "the tenant's quota of requests is 1, 1 are taken, and this takes 1");
  EXPECT_TRUE(RetryAfterMs(refused).has_value());
  EXPECT_FALSE(admission_->MayWait(refused)) << "no memory that others give back ends it";
  EXPECT_EQ(reported_, 1);

  ASSERT_TRUE(Submit(*std::move(request)).ok());
  EXPECT_EQ(Held(tenant)[0], 1U);
  clock_.Advance(kMillisecond);
  device_.FinishOne();
  ASSERT_EQ(outcomes_.size(), 1U);
  EXPECT_EQ(Held(tenant), (Amounts{0, kPlaneBytes, 0, 0}));
  outcomes_.clear();
  EXPECT_EQ(quotas_.size(), 0U);
}

TEST_F(QuotaTest, ARequestThatIsDroppedGivesAllBack) {
  Quota quota;
  quota.device_share = 1;
  const Tenant tenant = With(quota);
  { const absl::StatusOr<Admitted> request = Admit(Call(tenant)); }
  EXPECT_EQ(quotas_.size(), 0U);
  absl::StatusOr<Admitted> request = Admit(Call(tenant));
  ASSERT_TRUE(Submit(*std::move(request)).ok());
  device_.FinishOne(absl::InternalError("broken"));
  outcomes_.clear();
  EXPECT_EQ(Held(tenant), Amounts{});
}

TEST_F(QuotaTest, ARequestLargerThanTheLimitNeverFits) {
  const Tenant tenant = With(Limit(Quantity::kRequestBytes, 3 * kPlaneBytes - 1));
  const absl::Status status = Admit(Call(tenant)).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(Held(tenant), Amounts{});
}

TEST_F(QuotaTest, TheDevicesTimeIsOwedAsItWas) {
  Quota quota;
  quota.device_share = 0.5;
  const Tenant tenant = With(quota);
  ASSERT_TRUE(Submit(*Admit(Call(tenant))).ok());
  clock_.Advance(1500 * kMillisecond);
  device_.FinishOne();
  // The tenant owes what the work took, less what was predicted, which is paid by now.
  EXPECT_NEAR(static_cast<double>(quotas_.UseOf(tenant).owed), 3000.0 * kMillisecond,
              0.1 * kMillisecond);
  const absl::Status refused = Admit(Call(tenant)).status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(RetryAfterMs(refused), 2000);
  EXPECT_TRUE(Admit(Call(With(quota, "b"))).ok()) << "others owe nothing";
}

TEST_F(QuotaTest, AQuotasPriorityGoesBeforeTheOption) {
  const auto admit = [&](std::optional<bool> high, const std::string& name) {
    Quota quota;
    quota.high_priority = high;
    MatmulCall call = Call(With(quota, name));
    call.priority = Priority::kHigh;
    return Admit(call).status();
  };
  EXPECT_TRUE(admit(std::nullopt, "urgent").ok());
  EXPECT_TRUE(admit(true, "a").ok());
  EXPECT_EQ(admit(std::nullopt, "a").code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(admit(false, "urgent"),
            absl::PermissionDeniedError("priority is high, which tenant \"urgent\" may not have "
                                        "(the quota's high_priority)"));
}

TEST_F(QuotaTest, WhatWaitsForMemoryCounts) {
  const Tenant hog = *Tenant::Named("hog");
  std::vector<Admitted> held;
  while (true) {
    absl::StatusOr<Admitted> admitted = Admit(Call(hog, 100));
    if (!admitted.ok()) break;
    held.push_back(*std::move(admitted));
  }
  const Tenant tenant = With(Limit(Quantity::kRequests, 1));
  ASSERT_TRUE(admission_->MayWait(Admit(Call(tenant, 100)).status()));
  std::vector<absl::StatusOr<Admitted>> told;
  const auto await = [&](std::uint64_t id) {
    admission_->AwaitMemory(id, Call(tenant, 100), kNoDeadline, kCarrier, 0,
                            [&told](auto admitted) { told.push_back(std::move(admitted)); });
  };
  await(1);
  EXPECT_TRUE(told.empty());
  EXPECT_EQ(Held(tenant)[0], 1U);
  await(2);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].status().message(),
            "the tenant's quota of requests is 1, 1 are taken, and this takes 1");
  held.clear();
  room_.Look();
  ASSERT_EQ(told.size(), 2U);
  ASSERT_TRUE(told[1].ok()) << told[1].status();
  EXPECT_EQ(Held(tenant)[0], 1U) << "it counts once";
  told.clear();
  EXPECT_EQ(quotas_.size(), 0U);
}

}  // namespace
}  // namespace gemmd
