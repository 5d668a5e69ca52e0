#include "server/observe/top_table.h"

#include <cstdint>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace gemmd {
namespace {

constexpr TimeNs kPeriod = 100;

std::uint64_t SumOf(const TopTable<std::uint64_t>& table) {
  std::uint64_t sum = table.rest();
  for (const auto& [name, total] : table.entries()) sum += total;
  return sum;
}

TEST(TopTable, NamesHaveEntriesWhileThereIsRoom) {
  TopTable<std::uint64_t> table(2, kPeriod);
  table.At("a", 0) += 1;
  table.At("b", 1) += 2;
  table.At("a", 2) += 3;
  table.At("c", 3) += 4;
  EXPECT_EQ(table.entries(), (std::map<std::string, std::uint64_t>{{"a", 4}, {"b", 2}}));
  EXPECT_EQ(table.rest(), 4u);
}

// The counts of the one that goes are still in the total.
TEST(TopTable, WhatOccursMoreTakesThePlaceOfWhatOccursLeast) {
  TopTable<std::uint64_t> table(2, kPeriod);
  for (int i = 0; i < 5; ++i) table.At("often", 0) += 1;
  table.At("seldom", 0) += 7;
  for (int i = 0; i < 3; ++i) table.At("new", 1) += 1;
  table.At("new", kPeriod) += 1;
  const std::map<std::string, std::uint64_t> expected = {{"new", 1}, {"often", 5}};
  EXPECT_EQ(table.entries(), expected);
  EXPECT_EQ(table.rest(), 7u + 3u);
}

TEST(TopTable, WhatOccursNoMoreOftenDoesNot) {
  TopTable<std::uint64_t> table(1, kPeriod);
  table.At("first", 0) += 1;  // which begins a period
  for (int i = 0; i < 2; ++i) table.At("first", 1) += 1;
  for (int i = 0; i < 2; ++i) table.At("second", 2) += 1;
  table.At("second", kPeriod) += 1;
  EXPECT_EQ(table.entries().count("first"), 1u);
}

// 10^6 names, each once, beside one client that asks every tenth time: it gets an entry though the
// table was full of others before, and at most one name changes a period.
TEST(TopTable, AMillionNamesNeitherFillItNorChurnIt) {
  constexpr std::size_t kCapacity = 20;
  constexpr std::uint64_t kNames = 1000000;
  constexpr TimeNs kLongPeriod = 100000;
  TopTable<std::uint64_t> table(kCapacity, kLongPeriod);
  std::mt19937 random(29);
  std::map<std::string, std::uint64_t> before;
  TimeNs now = 0;
  for (std::uint64_t i = 0; i < kNames; ++i) {
    ++now;
    table.At(absl::StrCat("name-", i), now) += 1;
    if (random() % 10 == 0) table.At("steady", now) += 1;
    if (now % kLongPeriod != 1) continue;
    const std::map<std::string, std::uint64_t> entries = table.entries();
    ASSERT_LE(entries.size(), kCapacity);
    std::size_t new_names = 0;
    for (const auto& [name, total] : entries) new_names += before.count(name) == 0 ? 1 : 0;
    if (before.size() == kCapacity) {
      EXPECT_LE(new_names, 1u);
    }
    before = entries;
  }
  EXPECT_EQ(table.entries().count("steady"), 1u);
  EXPECT_GE(SumOf(table), kNames);
}

TEST(TopTable, NothingIsLostWhateverComes) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    TopTable<std::uint64_t> table(1 + random() % 5, 1 + random() % 50);
    std::uint64_t sum = 0;
    TimeNs now = 0;
    for (int i = 0; i < 20000; ++i) {
      now += random() % 3;
      const std::uint64_t amount = random() % 100;
      table.At(absl::StrCat("n", random() % (1 + random() % 200)), now) += amount;
      sum += amount;
    }
    EXPECT_EQ(SumOf(table), sum) << seed;
  }
}

}  // namespace
}  // namespace gemmd
