#include <limits>
#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/admission/memory_bytes.h"

namespace gemmd {
namespace {

using ::testing::HasSubstr;

Amounts Large(std::uint64_t bytes) { return MemoryBytes{0, 0, bytes, 0}.amounts(); }

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
  absl::StatusOr<Hold> Take(const std::string& tenant, const std::string& peer,
                            std::uint64_t bytes) {
    return shares_.Take({tenant, peer}, Large(bytes));
  }

  int releases_ = 0;
  Ledger shares_{MemoryRules(), MemoryShares({1000, 1000, 1000, 1000}, 80), nullptr,
                 [this] { ++releases_; }};
};

TEST_F(MemorySharesTest, HeldSumsWhatAllHoldAndNothingTwice) {
  EXPECT_EQ(MemoryBytes::Of(shares_.held()).large, 0u);
  auto first = Take("a", "10.0.0.1", 500);
  auto second = Take("b", "10.0.0.1", 100);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(Take("b", "10.0.0.2", 900).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(MemoryBytes::Of(shares_.held()).large, 600u);
  Hold part = first->Split(Large(200));
  EXPECT_EQ(MemoryBytes::Of(shares_.held()).large, 600u);
  first->Release();
  EXPECT_EQ(MemoryBytes::Of(shares_.held()).large, 300u);
  part.Release();
  second->Release();
  EXPECT_EQ(MemoryBytes::Of(shares_.held()).large, 0u);
}

TEST_F(MemorySharesTest, ATenantHasAShareAndLeavesTheRestToOthers) {
  const auto first = Take("hog", "10.0.0.1", 500);
  ASSERT_TRUE(first.ok());
  const auto second = Take("hog", "10.0.0.2", 301);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(
      std::string(second.status().message()),
      HasSubstr("the tenant's share of bytes of page-locked memory is 800, 500 are taken, and "
                "this takes 301 (scheduling.tenant_percent)"));
  EXPECT_TRUE(Take("hog", "10.0.0.2", 300).ok());
  EXPECT_TRUE(Take("polite", "10.0.0.3", 800).ok());
}

TEST_F(MemorySharesTest, SoHasAnAddressWhateverNamesItsClientsGive) {
  const auto first = Take("a", "10.0.0.1", 500);
  const auto second = Take("b", "10.0.0.1", 301);
  EXPECT_THAT(
      std::string(second.status().message()),
      HasSubstr("the share of address 10.0.0.1 of bytes of page-locked memory is 800, 500 are"));
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
  absl::StatusOr<Hold> charge = Take("a", "x", 800);
  Hold result = charge->Split(Large(300));
  charge->Release();
  EXPECT_EQ(releases_, 1);
  EXPECT_FALSE(Take("a", "x", 501).ok());
  EXPECT_TRUE(Take("a", "x", 500).ok());
  result.Release();
  EXPECT_EQ(shares_.holders(), 0U);
}

TEST_F(MemorySharesTest, AllOfNothingAndOfEverythingCanBeCounted) {
  Ledger whole(MemoryRules(), MemoryShares({~std::uint64_t{0}, 99, 0, 0}, 100));
  const auto first = whole.Take({"a", "x"}, {1, 0, 0, 0});
  EXPECT_TRUE(whole.Take({"a", "x"}, {~std::uint64_t{0} - 1, 99, 0, 0}).ok());
  EXPECT_FALSE(whole.Take({"a", "x"}, {~std::uint64_t{0}, 0, 0, 0}).ok());
}

TEST(MemoryShares, ChargesMayOutliveThem) {
  std::optional<Hold> charge;
  bool is_told = false;
  {
    Ledger shares(MemoryRules(), MemoryShares({10, 10, 10, 10}, 50), nullptr,
                  [&is_told] { is_told = true; });
    charge = *shares.Take({"a", "x"}, Large(5));
  }
  charge.reset();
  EXPECT_FALSE(is_told);
}

}  // namespace
}  // namespace gemmd
