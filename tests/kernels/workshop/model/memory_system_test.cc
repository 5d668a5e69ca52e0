// L2 forgets what was used longest ago, and bytes are counted where they go.
#include "kernels/workshop/model/memory_system.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <list>
#include <random>

#include "kernels/workshop/model/lru_cache.h"

namespace gemmd::model {
namespace {

TEST(LruCache, IsThatOfAListInEverySequence) {
  std::mt19937 random(7);
  for (const std::size_t capacity : {1, 3, 10}) {
    LruCache cache(static_cast<double>(capacity));
    std::list<std::size_t> expected;  // the newest first
    for (int turn = 0; turn < 2000; ++turn) {
      const std::size_t block = random() % 15;
      cache.Use(block, 1);
      expected.remove(block);
      expected.push_front(block);
      if (expected.size() > capacity) expected.pop_back();
      ASSERT_EQ(cache.used_bytes(), static_cast<double>(expected.size()));
      for (std::size_t each = 0; each < 15; ++each) {
        bool has = false;
        for (const std::size_t here : expected) has |= here == each;
        ASSERT_EQ(cache.Has(each), has);
      }
    }
  }
}

TEST(LruCache, ForgetsAsMuchAsALargeBlockTakes) {
  LruCache cache(10);
  for (std::size_t block = 0; block < 5; ++block) cache.Use(block, 2);
  cache.Use(0, 2);
  cache.Use(5, 5);
  EXPECT_TRUE(cache.Has(0));
  EXPECT_FALSE(cache.Has(1));
  EXPECT_FALSE(cache.Has(3));
  EXPECT_TRUE(cache.Has(4));
  cache.Use(6, 11);
  EXPECT_FALSE(cache.Has(6));
  EXPECT_EQ(cache.used_bytes(), 0);
}

TEST(MemorySystem, TheFirstReadComesFromMemoryAndTheNextFromL2) {
  Machine machine;
  machine.dies = 1;
  MemorySystem memory(machine);
  const double bytes = 32768;
  const double first = memory.Read(0, 0, 3, bytes, bytes);
  EXPECT_DOUBLE_EQ(
      first, bytes / machine.MemoryBytesPerClock() + machine.memory_latency + machine.l2_latency);
  // It is on its way, and then it is there.
  EXPECT_DOUBLE_EQ(memory.Read(1, 0, 3, bytes, bytes), first);
  EXPECT_DOUBLE_EQ(memory.Read(1e6, 0, 3, bytes, bytes), 1e6 + machine.l2_latency);
  EXPECT_EQ(memory.traffic().from_memory, bytes);
  EXPECT_EQ(memory.traffic().hit, 2 * bytes);
}

TEST(MemorySystem, TheOtherDiesCopyComesOverTheLink) {
  const Machine machine;
  MemorySystem memory(machine);
  memory.Read(0, 0, 3, 1000, 1000);
  const double copied = memory.Read(1e6, 1, 3, 1000, 1000);
  EXPECT_DOUBLE_EQ(copied, 1e6 + 1000 / machine.LinkBytesPerClock() + machine.l2_latency);
  EXPECT_EQ(memory.traffic().other_die, 1000);
  EXPECT_EQ(memory.traffic().from_memory, 1000);
  EXPECT_DOUBLE_EQ(memory.Read(2e6, 1, 3, 1000, 1000), 2e6 + machine.l2_latency);
}

TEST(MemorySystem, ReadsWaitForEachOtherAndStoresForNobody) {
  Machine machine;
  machine.dies = 1;
  MemorySystem memory(machine);
  memory.Write(0, 0, 9, 1e6, Output::kStore);
  const double clocks = 1000 / machine.MemoryBytesPerClock();
  const double latency = machine.memory_latency + machine.l2_latency;
  EXPECT_DOUBLE_EQ(memory.Read(0, 0, 0, 1000, 1000), clocks + latency);
  EXPECT_DOUBLE_EQ(memory.Read(0, 0, 1, 1000, 1000), 2 * clocks + latency);
}

TEST(MemorySystem, AnAddToWhatL2HasForgottenReadsItAgain) {
  Machine machine;
  machine.dies = 1;
  machine.l2_bytes = 1000;
  MemorySystem memory(machine);
  memory.Write(0, 0, 1, 400, Output::kStore);
  memory.Write(0, 0, 1, 400, Output::kAdd);
  EXPECT_EQ(memory.traffic().to_memory, 400);
  memory.Write(0, 0, 2, 900, Output::kStore);
  memory.Write(0, 0, 1, 400, Output::kAdd);
  EXPECT_EQ(memory.traffic().to_memory, 400 + 900 + 400);
  EXPECT_EQ(memory.traffic().from_memory, 400);
}

}  // namespace
}  // namespace gemmd::model
