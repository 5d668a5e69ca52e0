#include "server/holdings/ledger.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/time/units.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_clock.h"

namespace gemmd {
namespace {

using absl::StatusCode;

constexpr std::array<absl::string_view, kMostQuantities> kFruit = {"apples", "pears", "plums",
                                                                   "nuts", "figs"};

LedgerRules Rules() {
  LedgerRules rules;
  for (std::size_t i = 0; i < kFruit.size(); ++i) rules.quantities[i] = {kFruit[i], kFruit[i]};
  rules.limit = "share";
  rules.option = "fruit.percent";
  rules.waits_for.fill(WaitsFor::kRequests);
  rules.waits_for[0] = WaitsFor::kLeases;
  return rules;
}

LedgerRules ForGood() {
  LedgerRules rules = Rules();
  rules.refuses_for_good = true;
  return rules;
}

LedgerRules FirstIsFree() {
  LedgerRules rules = Rules();
  rules.first_is_free = true;
  return rules;
}

LimitTable Limits(std::uint64_t tenant, std::uint64_t address, std::uint64_t all) {
  return {Amounts{tenant, tenant}, Amounts{address, address}, Amounts{all, all}};
}

TEST(Ledger, ARefusalNamesQuantityUseAndLimitAndWhenToComeBack) {
  Ledger ledger(Rules(), Limits(5, 7, 9));
  const auto first = ledger.Take({"a", "x"}, {4});
  ASSERT_TRUE(first.ok());
  const absl::Status own = ledger.Take({"a", "y"}, {2}).status();
  EXPECT_EQ(own.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(own.message(),
            "the tenant's share of apples is 5, 4 are taken, and this takes 2 (fruit.percent)");
  EXPECT_EQ(RefusedBy(own), Party::kTenant);
  EXPECT_EQ(RetryAfterMs(own), LeastRetryMs(WaitsFor::kLeases));
  const absl::Status here = ledger.Take({"b", "x"}, {4}).status();
  EXPECT_EQ(here.message(),
            "the share of address x of apples is 7, 4 are taken, and this takes 4 (fruit.percent)");
  EXPECT_EQ(RefusedBy(here), Party::kAddress);
  const auto second = ledger.Take({"b", std::nullopt}, {5});
  ASSERT_TRUE(second.ok()) << second.status();
  const absl::Status full = ledger.Take({std::nullopt, std::nullopt}, {1}).status();
  EXPECT_EQ(full.message(), "the limit of apples is 9, 9 are taken, and this takes 1");
  EXPECT_EQ(RefusedBy(full), Party::kAll);
  EXPECT_EQ(RefusedBy(absl::ResourceExhaustedError("another")), std::nullopt);
}

TEST(Ledger, WhatNeverFitsIsRefusedForGoodAndTheLeastLimitNamed) {
  Ledger ledger(ForGood(), Limits(5, 3, 9));
  const absl::Status never = ledger.Take({"a", "x"}, {10}).status();
  EXPECT_EQ(never.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(never.message(),
            "the share of address x of apples is 3, and this takes 10 (fruit.percent)");
  EXPECT_EQ(ledger.Take({"a", std::nullopt}, {10}).status().message(),
            "the tenant's share of apples is 5, and this takes 10 (fruit.percent)");
  EXPECT_EQ(ledger.Take({std::nullopt, std::nullopt}, {10}).status().message(),
            "the limit of apples is 9, and this takes 10");
  ledger.SetLimits(Limits(0, 3, 9));
  const absl::Status none = ledger.Take({"a", "x"}, {1}).status();
  EXPECT_EQ(none.code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(none.message(), "the tenant's share of apples is 0");
  EXPECT_EQ(ledger.holders(), 0U);
  EXPECT_EQ(ledger.Take({std::nullopt, std::nullopt}, {0, 9}).status(), absl::OkStatus());
}

TEST(Ledger, WhoHoldsNothingMayTakeAnythingThatAllMayHave) {
  Ledger ledger(FirstIsFree(), Limits(5, 5, 20));
  EXPECT_EQ(RefusedBy(ledger.Take({"a", "x"}, {21}).status()), Party::kAll);
  const auto first = ledger.Take({"a", "x"}, {19});
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(RefusedBy(ledger.Take({"a", "y"}, {1}).status()), Party::kTenant);
  EXPECT_EQ(RefusedBy(ledger.Take({"b", "x"}, {1}).status()), Party::kAddress);
  EXPECT_TRUE(ledger.Take({"a", "x"}, {0, 1}).ok()) << "it takes none of what is full";
}

TEST(Ledger, SumsNeverWrap) {
  Ledger ledger(Rules(), kNoLimits);
  const auto first = ledger.Take({"a", "x"}, {kUnlimited});
  ASSERT_TRUE(first.ok());
  EXPECT_FALSE(ledger.Take({"b", "y"}, {1}).ok());
}

TEST(Ledger, AHoldIsGivenBackOnceWhereverItMoves) {
  int releases = 0;
  Hold last;
  {
    Ledger ledger(Rules(), kNoLimits, nullptr, [&releases] { ++releases; });
    Hold first = *ledger.Take({"a", "x"}, {8, 2});
    Hold second = std::move(first);
    first.Release();  // NOLINT(bugprone-use-after-move): it holds nothing
    EXPECT_EQ(ledger.held(), (Amounts{8, 2}));
    second.Shrink({3, 0});
    EXPECT_EQ(releases, 1);
    EXPECT_EQ(second.amounts(), (Amounts{5, 2}));
    last = second.Split({1, 1});
    second = Hold();
    EXPECT_EQ(releases, 2);
    EXPECT_EQ(ledger.held(), (Amounts{1, 1}));
    EXPECT_EQ(ledger.UseOf(Party::kTenant, "a").amounts, (Amounts{1, 1}));
  }
  last.Release();
  EXPECT_EQ(releases, 2) << "the ledger is gone";
}

// "tenant a: 3 of 5 apples"
std::string Text(const Holding& holding) {
  constexpr std::array<const char*, kParties> kNames = {"tenant ", "address ", "all"};
  const std::string limit = holding.limit == kUnlimited ? "any" : std::to_string(holding.limit);
  return kNames[static_cast<std::size_t>(holding.party)] + holding.name + ": " +
         std::to_string(holding.held) + " of " + limit + " " + holding.quantity;
}

TEST(Ledger, TellsWhoHoldsMostAndOfWhatLimit) {
  LedgerRules rules;
  rules.quantities = {LedgerQuantity{"apples", "red apples"}, LedgerQuantity{"pears", "pears"}};
  Ledger ledger(rules, {Amounts{50, kUnlimited}, Amounts{60, 70}, Amounts{kUnlimited, 90}});
  const Ledger::Terms terms{{7, kUnlimited}, 0};
  std::vector<Hold> holds;
  for (const auto& [holder, amounts, own] :
       std::vector<std::tuple<Holder, Amounts, bool>>{{{"a", "x"}, {4, 0}, false},
                                                      {{"b", "x"}, {5, 1}, true},
                                                      {{"c", "y"}, {5, 0}, false},
                                                      {{"d", std::nullopt}, {1, 0}, false}}) {
    holds.push_back(*ledger.Take(holder, amounts, own ? &terms : nullptr));
  }
  const auto read = [&ledger](std::size_t most) {
    std::vector<std::string> lines;
    for (const Holding& each : ledger.Read(most)) lines.push_back(Text(each));
    return lines;
  };
  EXPECT_EQ(read(2),
            (std::vector<std::string>{"all: 15 of any apples", "tenant b: 5 of 7 apples",
                                      "tenant c: 5 of 50 apples", "address x: 9 of 60 apples",
                                      "address y: 5 of 60 apples", "all: 1 of 90 pears",
                                      "tenant b: 1 of any pears", "address x: 1 of 70 pears"}));
  EXPECT_EQ(read(0), (std::vector<std::string>{"all: 15 of any apples", "all: 1 of 90 pears"}));
  holds.clear();
  EXPECT_EQ(read(9), (std::vector<std::string>{"all: 0 of any apples", "all: 0 of 90 pears"}));
}

// A plain sum for each party is the reference of what a ledger must hold and refuse.
class Reference {
 public:
  static constexpr std::size_t kTenants = 5;
  static constexpr std::size_t kAddresses = 3;

  struct Held {
    std::optional<std::size_t> tenant;
    std::optional<std::size_t> address;
    Amounts amounts{};
    Hold hold;
  };
  struct Sum {
    std::size_t holds = 0;
    Amounts amounts{};
  };

  // The sums in which a holder counts, each with its party.
  std::vector<std::pair<Party, Sum*>> SumsOf(const Held& each) {
    std::vector<std::pair<Party, Sum*>> sums;
    if (each.tenant.has_value()) sums.emplace_back(Party::kTenant, &tenants[*each.tenant]);
    if (each.address.has_value()) sums.emplace_back(Party::kAddress, &addresses[*each.address]);
    sums.emplace_back(Party::kAll, &all);
    return sums;
  }

  // Absent: it fits.
  std::optional<Party> InTheWay(const Held& wanted, const LimitTable& limits, bool first_is_free) {
    for (const auto& [party, sum] : SumsOf(wanted)) {
      if (first_is_free && party != Party::kAll && sum->holds == 0) continue;
      for (std::size_t i = 0; i < kMostQuantities; ++i) {
        const std::uint64_t limit = limits[static_cast<std::size_t>(party)][i];
        if (wanted.amounts[i] != 0 && sum->amounts[i] + wanted.amounts[i] > limit) return party;
      }
    }
    return std::nullopt;
  }

  void Add(const Held& each) {
    for (const auto& [party, sum] : SumsOf(each)) {
      ++sum->holds;
      for (std::size_t i = 0; i < kMostQuantities; ++i) sum->amounts[i] += each.amounts[i];
    }
  }

  void Remove(const Held& each, const Amounts& amounts, std::size_t holds) {
    for (const auto& [party, sum] : SumsOf(each)) {
      sum->holds -= holds;
      for (std::size_t i = 0; i < kMostQuantities; ++i) sum->amounts[i] -= amounts[i];
    }
  }

  std::array<Sum, kTenants> tenants{};
  std::array<Sum, kAddresses> addresses{};
  Sum all;
};

Amounts PartOf(const Amounts& whole, std::mt19937* random) {
  Amounts part{};
  for (std::size_t i = 0; i < kMostQuantities; ++i) part[i] = (*random)() % (whole[i] + 1);
  return part;
}

LimitTable RandomLimits(std::mt19937* random) {
  LimitTable limits = kNoLimits;
  for (Amounts& party : limits) {
    for (std::uint64_t& limit : party) {
      if ((*random)() % 4 != 0) limit = (*random)() % 400;
    }
  }
  return limits;
}

// Takes, refusals, splits, shrinks, moves, debts and ends in any order, while limits change.
void Play(const LedgerRules& rules, unsigned seed, int steps) {
  std::mt19937 random(seed);
  testing::FakeClock clock;
  LimitTable limits = RandomLimits(&random);
  std::uint64_t releases = 0;
  std::uint64_t ends = 0;
  Ledger ledger(rules, limits, &clock, [&releases] { ++releases; });
  Reference reference;
  std::vector<Reference::Held> held;
  std::size_t refused = 0;
  const auto name_of = [](const std::optional<std::size_t>& number) {
    return number.has_value() ? std::make_optional(std::to_string(*number)) : std::nullopt;
  };
  for (int step = 0; step < steps; ++step) {
    const auto what = random() % 100;
    clock.Advance(static_cast<TimeNs>(random() % 1000));
    if (what == 0) {
      limits = RandomLimits(&random);
      ledger.SetLimits(limits);
    } else if (what < 45) {
      Reference::Held wanted;
      if (random() % 8 != 0) wanted.tenant = random() % Reference::kTenants;
      if (random() % 4 != 0) wanted.address = random() % Reference::kAddresses;
      for (std::uint64_t& amount : wanted.amounts) amount = random() % 2 * (random() % 100);
      const Ledger::Terms terms{limits.front(), 1};
      const bool pays = wanted.tenant.has_value() && random() % 8 == 0;
      auto hold = ledger.Take({name_of(wanted.tenant), name_of(wanted.address)}, wanted.amounts,
                              pays ? &terms : nullptr);
      const std::optional<Party> full = reference.InTheWay(wanted, limits, rules.first_is_free);
      ASSERT_EQ(hold.ok(), !full.has_value()) << seed << ", " << step << ": " << hold.status();
      if (!hold.ok()) {
        ++refused;
        const bool is_busy = absl::IsResourceExhausted(hold.status());
        ASSERT_EQ(RetryAfterMs(hold.status()).has_value(), is_busy);
        if (is_busy) {
          ASSERT_EQ(RefusedBy(hold.status()), full) << seed << ", " << step;
        }
        continue;
      }
      if (pays) hold->OweDeviceTime(random() % 10);
      reference.Add(wanted);
      wanted.hold = *std::move(hold);
      held.push_back(std::move(wanted));
    } else if (!held.empty()) {
      std::swap(held[random() % held.size()], held.back());
      Reference::Held& one = held.back();
      if (what < 60) {
        const Amounts part = PartOf(one.amounts, &random);
        Reference::Held split{one.tenant, one.address, part, one.hold.Split(part)};
        reference.Remove(one, part, 0);
        for (std::size_t i = 0; i < kMostQuantities; ++i) one.amounts[i] -= part[i];
        reference.Add(split);
        held.push_back(std::move(split));
      } else if (what < 65) {
        const Amounts part = PartOf(one.amounts, &random);
        one.hold.Shrink(part);
        reference.Remove(one, part, 0);
        for (std::size_t i = 0; i < kMostQuantities; ++i) one.amounts[i] -= part[i];
        ++ends;
      } else {
        if (what < 70) one.hold.SettleDeviceTime(random() % 10);
        if (what < 75) one.hold.Release();  // and once more when it is destroyed
        reference.Remove(one, one.amounts, 1);
        held.pop_back();
        ++ends;
      }
    }
    ASSERT_EQ(ledger.held(), reference.all.amounts) << seed << ", " << step;
    ASSERT_EQ(releases, ends);
    const std::size_t who = random() % Reference::kTenants;
    ASSERT_EQ(ledger.UseOf(Party::kTenant, std::to_string(who)).amounts,
              reference.tenants[who].amounts)
        << seed << ", " << step;
    const std::size_t where = random() % Reference::kAddresses;
    ASSERT_EQ(ledger.UseOf(Party::kAddress, std::to_string(where)).amounts,
              reference.addresses[where].amounts)
        << seed << ", " << step;
  }
  EXPECT_GT(refused, 0U);
  held.clear();
  EXPECT_EQ(ledger.held(), Amounts{});
  // All debts are paid by now. The end of a hold makes the ledger forget who owed them.
  clock.Advance(kSecond);
  ledger.SetLimits(kNoLimits);
  EXPECT_TRUE(ledger.Take({"last", std::nullopt}, {1}).ok());
  EXPECT_EQ(ledger.holders(), 0U);
}

constexpr unsigned kSeeds = 100;
constexpr int kSteps = 4000;

TEST(LedgerProperty, SumsAreExactAndNothingIsLeftWhatever) {
  for (unsigned seed = 0; seed < kSeeds; ++seed) Play(Rules(), seed, kSteps);
}

TEST(LedgerProperty, SoTheyAreWhereTheFirstIsFree) {
  for (unsigned seed = 0; seed < kSeeds; ++seed) Play(FirstIsFree(), seed, kSteps);
}

TEST(LedgerProperty, SoTheyAreWhereRefusalsAreForGood) {
  for (unsigned seed = 0; seed < kSeeds; ++seed) Play(ForGood(), seed, kSteps);
}

}  // namespace
}  // namespace gemmd
