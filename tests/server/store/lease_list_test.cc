#include "server/store/lease_list.h"

#include <map>
#include <random>

#include "gtest/gtest.h"

namespace gemmd {
namespace {

constexpr auto kAny = [](std::uint64_t) { return true; };

TEST(LeaseList, ALeasedEntryNeverGoes) {
  LeaseList list;
  list.Add(1, 10, 100);
  EXPECT_FALSE(list.OldestUnleased(109, kAny).has_value());
  EXPECT_EQ(list.OldestUnleased(110, kAny), 1u);
}

TEST(LeaseList, TheLongestUnusedGoesFirst) {
  LeaseList list;
  list.Add(1, 0, 0);
  list.Add(2, 0, 0);
  list.Add(3, 5, 0);
  list.Use(1, 0);
  EXPECT_EQ(list.OldestUnleased(0, kAny), 2u);
  list.Remove(2);
  EXPECT_EQ(list.OldestUnleased(0, kAny), 1u);
  // Used before 1 was last, but leased until then.
  list.Use(1, 1);
  EXPECT_EQ(list.OldestUnleased(5, kAny), 3u);
}

TEST(LeaseList, AUseBeginsTheLeaseAnewAndRenewChangesIt) {
  LeaseList list;
  list.Add(1, 10, 0);
  EXPECT_EQ(list.Remaining(1, 4), 6);
  list.Use(1, 4);
  EXPECT_EQ(list.Remaining(1, 4), 10);
  EXPECT_FALSE(list.OldestUnleased(13, kAny).has_value());
  EXPECT_EQ(list.OldestUnleased(14, kAny), 1u);
  list.Use(1, 20);  // after it had run out
  EXPECT_FALSE(list.OldestUnleased(29, kAny).has_value());
  list.Renew(1, 3, 29);
  EXPECT_EQ(list.Remaining(1, 30), 2);
  EXPECT_EQ(list.lease(1), 3);
  list.Renew(1, 0, 30);
  EXPECT_EQ(list.Remaining(1, 30), 0);
  EXPECT_EQ(list.OldestUnleased(30, kAny), 1u);
}

TEST(LeaseList, WhatMayNotGoIsPassedOver) {
  LeaseList list;
  for (std::uint64_t id = 1; id <= 3; ++id) list.Add(id, 0, 0);
  EXPECT_EQ(list.OldestUnleased(0, [](std::uint64_t id) { return id == 3; }), 3u);
  EXPECT_FALSE(list.OldestUnleased(0, [](std::uint64_t) { return false; }).has_value());
}

// Against all entries looked at one by one.
TEST(LeaseList, AnySequenceOfUsesGivesTheLongestUnusedWithoutALease) {
  struct Known {
    TimeNs lease = 0;
    TimeNs until = 0;
    int used = 0;
  };
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    LeaseList list;
    std::map<std::uint64_t, Known> known;
    TimeNs now = 0;
    int uses = 0;
    for (int step = 0; step < 300; ++step) {
      now += random() % 4;
      const std::uint64_t id = random() % 8;
      const bool is_here = known.count(id) != 0;
      const TimeNs lease = random() % 3 == 0 ? 0 : random() % 20;
      const auto use = [&](TimeNs again) { known[id] = {again, now + again, ++uses}; };
      if (!is_here) {
        list.Add(id, lease, now);
        use(lease);
      } else if (random() % 4 == 0) {
        list.Renew(id, lease, now);
        use(lease);
      } else if (random() % 6 == 0) {
        list.Remove(id);
        known.erase(id);
      } else {
        list.Use(id, now);
        use(known.at(id).lease);
      }
      if (random() % 3 != 0) continue;
      std::optional<std::uint64_t> oldest;
      for (const auto& [each, entry] : known) {
        if (entry.until > now) continue;
        if (!oldest.has_value() || entry.used < known.at(*oldest).used) oldest = each;
      }
      ASSERT_EQ(list.OldestUnleased(now, kAny), oldest) << "seed " << seed << ", step " << step;
    }
  }
}

}  // namespace
}  // namespace gemmd
