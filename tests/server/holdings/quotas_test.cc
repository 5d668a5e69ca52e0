#include "server/holdings/quotas.h"

#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/time/units.h"
#include "gtest/gtest.h"
#include "server/tenants/retry_after.h"
#include "tests/testing/fake_clock.h"

namespace gemmd {
namespace {

using absl::StatusCode;

Tenant With(Quota quota, const std::string& name = "a") {
  quota.account = name;
  return Tenant::Named(name)->With(std::make_shared<const Quota>(std::move(quota)));
}

Tenant Limited(Quantity quantity, std::uint64_t limit, const std::string& name = "a") {
  Quota quota;
  quota.limits[static_cast<std::size_t>(quantity)] = limit;
  return With(quota, name);
}

Tenant Paying(double device_share, const std::string& name = "a") {
  Quota quota;
  quota.device_share = device_share;
  return With(quota, name);
}

class QuotasTest : public ::testing::Test {
 protected:
  absl::StatusOr<Hold> Take(const Tenant& tenant, Quantity quantity, std::uint64_t amount) {
    return accounts_.Take(tenant, AmountOf(quantity, amount));
  }
  absl::StatusOr<Hold> Request(const Tenant& tenant) {
    return Take(tenant, Quantity::kRequests, 1);
  }

  testing::FakeClock clock_;
  std::vector<std::string> reported_;
  Quotas accounts_{&clock_, [this](const Tenant& tenant, const absl::Status& status) {
                     reported_.push_back(absl::StrCat(tenant.key(), ": ", status.message()));
                   }};
};

TEST_F(QuotasTest, WhoHasNoQuotaIsNotCounted) {
  const Tenant free = *Tenant::Named("free");
  const auto hold = Take(free, Quantity::kRequestBytes, std::numeric_limits<std::uint64_t>::max());
  EXPECT_TRUE(hold.ok());
  EXPECT_EQ(accounts_.size(), 0U);
}

TEST_F(QuotasTest, ARefusalNamesQuotaUseAndLimit) {
  const Tenant tenant = Limited(Quantity::kResidentBytes, 100);
  const auto held = Take(tenant, Quantity::kResidentBytes, 60);
  ASSERT_TRUE(held.ok());
  const absl::Status full = Take(tenant, Quantity::kResidentBytes, 41).status();
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(full.message(),
            "the tenant's quota of resident_bytes is 100, 60 are taken, and this takes 41");
  EXPECT_TRUE(RetryAfterMs(full).has_value());
  EXPECT_TRUE(IsQuotaRefusal(full));
  EXPECT_TRUE(Take(tenant, Quantity::kResidentBytes, 40).ok());

  const absl::Status never = Take(tenant, Quantity::kResidentBytes, 101).status();
  EXPECT_EQ(never.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(never.message(), "the tenant's quota of resident_bytes is 100, and this takes 101");
  const absl::Status none = Take(Limited(Quantity::kRegions, 0), Quantity::kRegions, 1).status();
  EXPECT_EQ(none.code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(none.message(), "the tenant's quota of regions is 0");
}

TEST_F(QuotasTest, OnlyQuotasRefusalsAreReported) {
  const Tenant tenant = Limited(Quantity::kRegions, 0);
  accounts_.Report(tenant, absl::OkStatus());
  accounts_.Report(tenant, absl::ResourceExhaustedError("memory is full"));
  EXPECT_TRUE(reported_.empty());
  accounts_.Report(tenant, Take(tenant, Quantity::kRegions, 1).status());
  EXPECT_EQ(reported_, std::vector<std::string>{"a: the tenant's quota of regions is 0"});
}

TEST_F(QuotasTest, WhatIsFullOfOneThingIsNotFullOfAnother) {
  Quota quota;
  quota.limits = {1, 100, 0, 1};
  const Tenant tenant = With(quota);
  const auto request = accounts_.Take(tenant, {1, 100, 0, 0});
  ASSERT_TRUE(request.ok());
  EXPECT_TRUE(Take(tenant, Quantity::kRegions, 1).ok());
  EXPECT_FALSE(Request(tenant).ok());
  EXPECT_FALSE(Take(tenant, Quantity::kRequestBytes, 1).ok());
}

// The file was written anew meanwhile.
TEST_F(QuotasTest, WhatWasTakenCountsAgainstALimitThatComesLater) {
  const auto before = Take(With({}), Quantity::kRequestBytes, 500);
  ASSERT_TRUE(before.ok());
  const Tenant tenant = Limited(Quantity::kRequestBytes, 400);
  EXPECT_EQ(Take(tenant, Quantity::kRequestBytes, 1).status().code(),
            StatusCode::kResourceExhausted);
  EXPECT_TRUE(Request(tenant).ok()) << "what takes no bytes is not refused for them";
}

TEST_F(QuotasTest, APartIsHeldForItself) {
  const Tenant tenant = Limited(Quantity::kRequestBytes, 100);
  Hold part;
  {
    auto whole = accounts_.Take(tenant, {1, 100, 0, 0});
    ASSERT_TRUE(whole.ok());
    part = whole->Split(AmountOf(Quantity::kRequestBytes, 30));
  }
  EXPECT_EQ(accounts_.UseOf(tenant).amounts, (Amounts{0, 30, 0, 0}));
  part.Release();
  EXPECT_EQ(accounts_.size(), 0U);
}

TEST_F(QuotasTest, AHoldMayOutliveTheAccounts) {
  Hold hold;
  {
    Quotas accounts(&clock_);
    hold = *accounts.Take(With({}), AmountOf(Quantity::kRequests, 1));
  }
  hold.SettleDeviceTime(1);
}

TEST_F(QuotasTest, DeviceTimeIsPaidAtTheQuotasRate) {
  const Tenant tenant = Paying(0.25);
  {
    auto hold = Request(tenant);
    ASSERT_TRUE(hold.ok());
    hold->SettleDeviceTime(500e3);  // two seconds at a quarter
  }
  const absl::Status status = Request(tenant).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(),
            "the tenant's quota of device_ms_per_second is 250, and at that rate what it took is "
            "paid for in 2000 ms; the limit is 1000");
  EXPECT_EQ(RetryAfterMs(status), 1000);
  EXPECT_TRUE(Take(tenant, Quantity::kResidentBytes, 1).ok()) << "it takes no device time";
  clock_.Advance(1000 * kMillisecond - 1);
  EXPECT_FALSE(Request(tenant).ok());
  clock_.Advance(1);
  EXPECT_TRUE(Request(tenant).ok());
}

TEST_F(QuotasTest, APredictionIsReplacedByWhatTheDeviceDid) {
  const Tenant tenant = Paying(1);
  auto hold = Request(tenant);
  ASSERT_TRUE(hold.ok());
  hold->OweDeviceTime(5e6);
  EXPECT_FALSE(Request(tenant).ok());
  hold->SettleDeviceTime(1e3);
  hold->Release();
  EXPECT_EQ(accounts_.UseOf(tenant).owed, kMillisecond);
  EXPECT_TRUE(Request(tenant).ok());
}

TEST_F(QuotasTest, WhatNeverRanCostsNothing) {
  const Tenant tenant = Paying(1);
  {
    auto hold = Request(tenant);
    hold->OweDeviceTime(5e6);
  }
  EXPECT_EQ(accounts_.UseOf(tenant).owed, 0);
  // Nor does it earn anything, when it was paid for before it was given back.
  auto hold = Request(tenant);
  hold->OweDeviceTime(5e6);
  clock_.Advance(10000 * kMillisecond);
  hold->Release();
  hold = Request(tenant);
  hold->OweDeviceTime(2e6);
  EXPECT_EQ(accounts_.UseOf(tenant).owed, 2000 * kMillisecond);
}

TEST_F(QuotasTest, TimesThatAreNoneCountAsNothingOrAsADay) {
  const Tenant tenant = Paying(1e-6);
  auto hold = Request(tenant);
  hold->OweDeviceTime(std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(accounts_.UseOf(tenant).owed, 0);
  hold->OweDeviceTime(-1e18);
  EXPECT_EQ(accounts_.UseOf(tenant).owed, 0);
  hold->OweDeviceTime(std::numeric_limits<double>::infinity());
  EXPECT_EQ(accounts_.UseOf(tenant).owed, 86400LL * 1000 * kMillisecond);
}

TEST_F(QuotasTest, NobodyIsRememberedWhoHoldsNothingAndHasPaid) {
  for (int i = 0; i < 1000; ++i) {
    auto hold = Request(Paying(1, absl::StrCat("t", i)));
    ASSERT_TRUE(hold.ok());
    hold->SettleDeviceTime(1e3);
  }
  EXPECT_EQ(accounts_.size(), 1000U) << "they owe";
  clock_.Advance(kMillisecond);
  EXPECT_TRUE(Request(With({}, "last")).ok());
  EXPECT_EQ(accounts_.size(), 0U);
}

// Takes, splits, settlements and returns in any order: the accounts have the sums of what is held,
// nobody has more than a limit, and nothing is refused that fits.
TEST_F(QuotasTest, SumsAreRightAfterAnyHistory) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const Amounts limits = {5, 1000, 3000, 2};
    struct Held {
      std::string name;
      Amounts amounts;
      Hold hold;
    };
    std::vector<Held> held;
    std::map<std::string, Amounts> sums;
    for (int step = 0; step < 300; ++step) {
      const std::string name(1, static_cast<char>('a' + random() % 3));
      Quota quota;
      for (std::size_t i = 0; i < kQuantities; ++i) quota.limits[i] = limits[i];
      const Tenant tenant = With(quota, name);
      Amounts& sum = sums[name];
      switch (random() % 4) {
        case 0:
        case 1: {
          Amounts amounts{};
          bool fits = true;
          for (std::size_t i = 0; i < kQuantities; ++i) {
            amounts[i] = random() % 2 * (random() % (limits[i] + 1));
            fits = fits && sum[i] + amounts[i] <= limits[i];
          }
          absl::StatusOr<Hold> hold = accounts_.Take(tenant, amounts);
          ASSERT_EQ(hold.ok(), fits) << hold.status();
          if (!fits) break;
          for (std::size_t i = 0; i < kQuantities; ++i) sum[i] += amounts[i];
          held.push_back({name, amounts, *std::move(hold)});
          break;
        }
        case 2: {
          if (held.empty()) break;
          Held& whole = held[random() % held.size()];
          Amounts part{};
          for (std::size_t i = 0; i < kQuantities; ++i) {
            part[i] = random() % (whole.amounts[i] + 1);
            whole.amounts[i] -= part[i];
          }
          Held split{whole.name, part, whole.hold.Split(part)};
          held.push_back(std::move(split));
          break;
        }
        default: {
          if (held.empty()) break;
          std::swap(held[random() % held.size()], held.back());
          if (random() % 2 == 0) held.back().hold.OweDeviceTime(random() % 1000);
          for (std::size_t i = 0; i < kQuantities; ++i) {
            sums[held.back().name][i] -= held.back().amounts[i];
          }
          held.pop_back();
        }
      }
      clock_.Advance(random() % 1000);
      ASSERT_EQ(accounts_.UseOf(tenant).amounts, sums[name]);
    }
    held.clear();
    ASSERT_EQ(accounts_.size(), 0U);
  }
}

// A tenant that always asks gets its rate, and no more than a burst and a request beyond.
TEST_F(QuotasTest, ABusyTenantGetsItsRate) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    const double share = 0.05 * static_cast<double>(1 + random() % 40);
    const Tenant tenant = Paying(share, absl::StrCat("t", seed));
    double taken_us = 0;
    double longest_us = 0;
    const TimeNs start = clock_.Now();
    for (int step = 0; step < 5000; ++step) {
      if (auto hold = Request(tenant); hold.ok()) {
        const double us = static_cast<double>(random() % 20000);
        hold->OweDeviceTime(us * static_cast<double>(random() % 3));
        hold->SettleDeviceTime(us);
        taken_us += us;
        longest_us = std::max(longest_us, us);
      }
      clock_.Advance(static_cast<TimeNs>(random() % (5 * kMillisecond)));
    }
    const double us = static_cast<double>(clock_.Now() - start) / 1e3;
    EXPECT_LE(taken_us, share * (us + 1e6) + longest_us) << seed;
    if (share < 1) {
      EXPECT_GE(taken_us, share * us * 0.99) << seed;
    }
  }
}

}  // namespace
}  // namespace gemmd
