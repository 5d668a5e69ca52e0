#include "server/store/store_budget.h"

#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/holdings/quotas.h"
#include "tests/testing/fake_clock.h"

namespace gemmd {
namespace {

bool Fits(const StoreShare& used, std::uint64_t bytes, const StoreShare& most) {
  return used.operands < most.operands && used.bytes + bytes <= most.bytes;
}

void Count(std::uint64_t bytes, StoreShare* used) {
  ++used->operands;
  used->bytes += bytes;
}

// Whatever they were before, an operand that comes is measured by the limits that there are now,
// and what is there stays.
TEST(StoreBudget, LimitsChangeWhileOperandsComeAndGo) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    StoreBudget::Limits limits{{8, 1000}, {6, 600}, {6, 600}};
    StoreBudget budget(limits);
    struct Kept {
      Tenant tenant;
      std::uint64_t bytes;
      StoreHold hold;
    };
    std::vector<Kept> kept;
    for (int step = 0; step < 500; ++step) {
      if (const auto what = random() % 5; what == 0) {
        limits.all = {random() % 12, random() % 2000};
        limits.tenant = {random() % 8, random() % 1000};
        limits.address = {random() % 8, random() % 1000};
        budget.SetLimits(limits);
      } else if (what == 1 && !kept.empty()) {
        std::swap(kept[random() % kept.size()], kept.back());
        kept.pop_back();
      } else {
        const auto who = random() % 4;
        const Tenant tenant =
            Tenant::Named(std::to_string(who))->At(who < 2 ? "10.0.0.1" : "10.0.0.2");
        const std::uint64_t bytes = random() % 300;
        StoreShare all, own, address;
        for (const Kept& each : kept) {
          Count(each.bytes, &all);
          if (each.tenant == tenant) Count(each.bytes, &own);
          if (each.tenant.address() == tenant.address()) Count(each.bytes, &address);
        }
        absl::StatusOr<StoreHold> hold = budget.Reserve(tenant, bytes);
        ASSERT_EQ(hold.ok(), Fits(all, bytes, limits.all) && Fits(own, bytes, limits.tenant) &&
                                 Fits(address, bytes, limits.address))
            << seed << ", " << step << ": " << hold.status();
        if (hold.ok()) kept.push_back({tenant, bytes, *std::move(hold)});
      }
      std::uint64_t sum = 0;
      for (const Kept& each : kept) sum += each.bytes;
      ASSERT_EQ(budget.used_bytes(), sum) << seed << ", " << step;
      ASSERT_EQ(budget.limit_bytes(), limits.all.bytes);
    }
  }
}

// Others' operands would make no room in a quota.
TEST(StoreBudget, AQuotaRefusesBeforeTheStoreAndShrinksWithIt) {
  testing::FakeClock clock;
  Quotas quotas(&clock);
  Quota quota;
  quota.account = "a";
  quota.limits[static_cast<std::size_t>(Quantity::kResidentBytes)] = 100;
  const Tenant tenant = Tenant::Named("a")->With(std::make_shared<const Quota>(std::move(quota)));
  StoreBudget budget({{8, 100}, {8, 100}, {8, 100}}, {}, &quotas);
  absl::StatusOr<StoreHold> hold = budget.Reserve(tenant, 90);
  ASSERT_TRUE(hold.ok()) << hold.status();
  EXPECT_TRUE(IsQuotaRefusal(budget.Reserve(tenant, 20).status()));
  hold->ShrinkTo(10);
  EXPECT_EQ(budget.used_bytes(), 10U);
  EXPECT_EQ(quotas.UseOf(tenant).amounts, AmountOf(Quantity::kResidentBytes, 10));
  *hold = StoreHold();
  EXPECT_EQ(budget.used_bytes(), 0U);
  EXPECT_EQ(quotas.size(), 0U);
}

}  // namespace
}  // namespace gemmd
