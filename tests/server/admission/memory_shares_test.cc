#include "server/admission/memory_shares.h"

#include <limits>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/admission/percent.h"

namespace gemmd {
namespace {

using ::testing::HasSubstr;

MemoryBytes Large(std::uint64_t bytes) { return {0, 0, bytes, 0}; }

TEST(PercentOf, IsRoundedUpAndDoesNotWrap) {
  EXPECT_EQ(PercentOf(1000, 80), 800U);
  EXPECT_EQ(PercentOf(1, 1), 1U);
  EXPECT_EQ(PercentOf(101, 50), 51U);
  EXPECT_EQ(PercentOf(7, 0), 0U);
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(PercentOf(kMost, 100), kMost);
  EXPECT_EQ(PercentOf(kMost, 50), kMost / 2 + 1);
}

class MemorySharesTest : public ::testing::Test {
 protected:
  absl::StatusOr<MemoryShares::Charge> Take(const std::string& tenant, const std::string& peer,
                                            std::uint64_t bytes) {
    return shares_.Take({tenant, peer}, Large(bytes));
  }

  int releases_ = 0;
  MemoryShares shares_{{1000, 1000, 1000, 1000}, 80, [this] { ++releases_; }};
};

TEST_F(MemorySharesTest, HeldSumsWhatAllHoldAndNothingTwice) {
  EXPECT_EQ(shares_.held().large, 0u);
  auto first = Take("a", "10.0.0.1", 500);
  auto second = Take("b", "10.0.0.1", 100);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(Take("b", "10.0.0.2", 900).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(shares_.held().large, 600u);
  MemoryShares::Charge part = first->Split(Large(200));
  EXPECT_EQ(shares_.held().large, 600u);
  first->Release();
  EXPECT_EQ(shares_.held().large, 300u);
  part.Release();
  second->Release();
  EXPECT_EQ(shares_.held().large, 0u);
}

TEST_F(MemorySharesTest, ATenantHasAShareAndLeavesTheRestToOthers) {
  const auto first = Take("hog", "10.0.0.1", 500);
  ASSERT_TRUE(first.ok());
  const auto second = Take("hog", "10.0.0.2", 301);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr("tenant \"hog\" holds 500 bytes of page-locked memory, the request needs "
                        "301, and the share of one is 800 (scheduling.tenant_percent)"));
  EXPECT_TRUE(Take("hog", "10.0.0.2", 300).ok());
  EXPECT_TRUE(Take("polite", "10.0.0.3", 800).ok());
}

TEST_F(MemorySharesTest, SoHasAnAddressWhateverNamesItsClientsGive) {
  const auto first = Take("a", "10.0.0.1", 500);
  const auto second = Take("b", "10.0.0.1", 301);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("address \"10.0.0.1\" holds 500"));
}

TEST_F(MemorySharesTest, KindsAreCountedApart) {
  const auto large = Take("a", "x", 800);
  EXPECT_TRUE(shares_.Take({"a", "x"}, {800, 800, 0, 800}).ok());
  EXPECT_THAT(std::string(shares_.Take({"a", "x"}, {801, 0, 0, 0}).status().message()),
              HasSubstr("of device memory"));
  EXPECT_THAT(std::string(shares_.Take({"a", "x"}, {0, 801, 0, 0}).status().message()),
              HasSubstr("of page-locked memory for small planes"));
  EXPECT_THAT(std::string(shares_.Take({"a", "x"}, {0, 0, 0, 801}).status().message()),
              HasSubstr("of host memory"));
}

// A request that is larger than a share would never be let in otherwise.
TEST_F(MemorySharesTest, WhoHoldsNothingMayTakeAnything) {
  {
    const auto whole = Take("a", "x", 1000);
    ASSERT_TRUE(whole.ok());
    EXPECT_FALSE(Take("a", "x", 1).ok());
  }
  EXPECT_TRUE(Take("a", "x", 1000).ok());
}

TEST_F(MemorySharesTest, AResultIsHeldForLongerThanTheRest) {
  absl::StatusOr<MemoryShares::Charge> charge = Take("a", "x", 800);
  MemoryShares::Charge result = charge->Split(Large(300));
  charge->Release();
  EXPECT_EQ(releases_, 1);
  EXPECT_FALSE(Take("a", "x", 501).ok());
  EXPECT_TRUE(Take("a", "x", 500).ok());
  result.Release();
  EXPECT_EQ(shares_.holders(), 0U);
}

TEST_F(MemorySharesTest, AllOfNothingAndOfEverythingCanBeCounted) {
  MemoryShares whole({~std::uint64_t{0}, 99, 0, 0}, 100, nullptr);
  const auto first = whole.Take({"a", "x"}, {1, 0, 0, 0});
  EXPECT_TRUE(whole.Take({"a", "x"}, {~std::uint64_t{0} - 1, 99, 0, 0}).ok());
  EXPECT_FALSE(whole.Take({"a", "x"}, {~std::uint64_t{0}, 0, 0, 0}).ok());
}

TEST(MemoryShares, ChargesMayOutliveThem) {
  std::optional<MemoryShares::Charge> charge;
  bool is_told = false;
  {
    MemoryShares shares({10, 10, 10, 10}, 50, [&is_told] { is_told = true; });
    charge = *shares.Take({"a", "x"}, Large(5));
  }
  charge.reset();
  EXPECT_FALSE(is_told);
}

// Random takers who split, move and release; a plain sum is the reference.
TEST(MemoryShares, AnyHistoryIsCountedExactly) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    MemoryShares shares({1000, 1000, 1000, 1000}, 70, nullptr);
    struct Held {
      MemoryHolder holder;
      std::uint64_t bytes;
      MemoryShares::Charge charge;
    };
    std::vector<Held> held;
    const auto sum_of = [&held](const std::string MemoryHolder::*who, const std::string& name) {
      std::pair<std::uint64_t, std::size_t> sum{0, 0};
      for (const Held& each : held) {
        if (each.holder.*who != name) continue;
        sum.first += each.bytes;
        ++sum.second;
      }
      return sum;
    };
    for (int step = 0; step < 300; ++step) {
      const std::uint64_t bytes = random() % 400;
      if (random() % 2 == 0) {
        const MemoryHolder holder{std::to_string(random() % 4), std::to_string(random() % 3)};
        bool fits = true;
        for (const auto& [sum, charges] : {sum_of(&MemoryHolder::tenant, holder.tenant),
                                           sum_of(&MemoryHolder::peer, holder.peer)}) {
          fits = fits && (charges == 0 || sum + bytes <= 700);
        }
        absl::StatusOr<MemoryShares::Charge> charge = shares.Take(holder, Large(bytes));
        ASSERT_EQ(charge.ok(), fits) << "seed " << seed << ": " << charge.status();
        if (fits) held.push_back({holder, bytes, *std::move(charge)});
      } else if (!held.empty()) {
        const std::size_t which = random() % held.size();
        if (random() % 2 == 0) {
          const std::uint64_t part = random() % (held[which].bytes + 1);
          MemoryShares::Charge split = held[which].charge.Split(Large(part));
          held[which].bytes -= part;
          held.push_back({held[which].holder, part, std::move(split)});
        } else {
          std::swap(held[which], held.back());
          held.pop_back();
        }
      }
    }
    held.clear();
    ASSERT_EQ(shares.holders(), 0U);
  }
}

}  // namespace
}  // namespace gemmd
