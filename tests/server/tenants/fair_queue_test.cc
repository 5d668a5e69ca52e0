#include "server/tenants/fair_queue.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gemmd {
namespace {

using ::testing::ElementsAre;

TEST(FairQueue, ANewNameWaitsForOneItemOfAnother) {
  FairQueue<int> queue;
  for (int i = 0; i < 10; ++i) queue.Push("hog", 5, i);
  EXPECT_EQ(queue.Pop(), 0);
  queue.Push("polite", 1, 100);
  queue.Push("polite", 1, 101);
  std::vector<int> order;
  while (!queue.empty()) order.push_back(queue.Pop());
  EXPECT_THAT(order, ElementsAre(1, 100, 101, 2, 3, 4, 5, 6, 7, 8, 9));
}

TEST(FairQueue, WhatWasNotUsedIsNotSaved) {
  FairQueue<std::string> queue;
  for (int i = 0; i < 100; ++i) queue.Push("busy", 1, "busy");
  for (int i = 0; i < 50; ++i) queue.Pop();
  for (int i = 0; i < 50; ++i) queue.Push("late", 1, "late");
  int late = 0;
  for (int i = 0; i < 20; ++i) late += queue.Pop() == "late" ? 1 : 0;
  EXPECT_GE(late, 9);
  EXPECT_LE(late, 11);
}

// Names that always wait get the same, within an item, whatever their items cost.
TEST(FairQueue, SharesAreEqualByCost) {
  constexpr double kMost = 100;
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    FairQueue<std::pair<std::string, double>> queue;
    const auto push = [&](const std::string& name) {
      const double largest = name == "a" ? kMost : name == "b" ? 10 : 1;
      const double cost = std::uniform_real_distribution<double>(0, largest)(random);
      queue.Push(name, cost, {name, cost});
    };
    std::map<std::string, double> had;
    for (const char* name : {"a", "b", "c"}) {
      for (int i = 0; i < 2; ++i) push(name);
    }
    for (int i = 0; i < 5000; ++i) {
      const auto [name, cost] = queue.Pop();
      had[name] += cost;
      push(name);
    }
    const auto [least, most] = std::minmax({had["a"], had["b"], had["c"]});
    EXPECT_LE(most - least, 2 * kMost) << seed;
    EXPECT_GT(least, 5 * kMost) << seed;
  }
}

// Names are free: one that comes again and again by another name is not always first, and does not
// fill memory.
TEST(FairQueue, NewNamesStarveNobody) {
  FairQueue<int> queue;
  for (int i = 0; i < 3; ++i) queue.Push("stays", 10, -1);
  int stays = 0;
  for (int i = 0; i < 200; ++i) {
    queue.Push("name " + std::to_string(i), 1, i);
    stays += queue.Pop() == -1 ? 1 : 0;
    EXPECT_LE(queue.names(), 70U);
  }
  EXPECT_EQ(stays, 3);
  while (!queue.empty()) queue.Pop();
  EXPECT_EQ(queue.names(), 0U);
}

}  // namespace
}  // namespace gemmd
