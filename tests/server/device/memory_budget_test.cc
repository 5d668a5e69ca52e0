#include "server/device/memory_budget.h"

#include <random>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace gemmd {
namespace {

TEST(MemoryBudget, FillsExactlyAndRefusesOneByteMore) {
  MemoryBudget budget(100);
  absl::StatusOr<MemoryReservation> all = budget.Reserve(60, 40);
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(budget.usage().free_bytes(), 0u);
  const absl::Status refused = budget.Reserve(1, 0).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.message(),
            "device memory is full: the request needs 1 bytes and 0 of workspace, and 0 of 100 "
            "are free");
  all->Release();
  EXPECT_EQ(budget.usage().free_bytes(), 100u);
  EXPECT_FALSE(budget.Reserve(101, 0).ok());
  EXPECT_FALSE(budget.Reserve(60, 41).ok());
  EXPECT_EQ(budget.usage().free_bytes(), 100u);
}

TEST(MemoryBudget, ResidentsFillWhatIsLeft) {
  MemoryBudget budget(100);
  const absl::StatusOr<MemoryReservation> in_flight = budget.Reserve(30, 10);
  EXPECT_EQ(budget.ReserveResident(61).status().message(),
            "device memory is full: the operand needs 61 bytes, and 60 of 100 are free");
  const absl::StatusOr<MemoryReservation> resident = budget.ReserveResident(60);
  ASSERT_TRUE(resident.ok()) << resident.status();
  EXPECT_EQ(budget.usage().resident_bytes, 60u);
  EXPECT_FALSE(budget.Reserve(1, 0).ok());
}

TEST(MemoryBudget, SumsThatWrapAreRefused) {
  MemoryBudget budget(100);
  EXPECT_FALSE(budget.Reserve(~std::uint64_t{0}, 2).ok());
  EXPECT_FALSE(budget.Reserve(2, ~std::uint64_t{0}).ok());
}

TEST(MemoryReservation, MovesItsBytesAndGivesThemBackOnce) {
  MemoryBudget budget(10);
  {
    MemoryReservation first = *budget.Reserve(4, 1);
    MemoryReservation second = std::move(first);
    EXPECT_EQ(budget.usage().in_flight_bytes, 4u);
    EXPECT_EQ(budget.usage().workspace_bytes, 1u);
    second = MemoryReservation();
    EXPECT_EQ(budget.usage().free_bytes(), 10u);
    second.Release();
  }
  EXPECT_EQ(budget.usage().free_bytes(), 10u);
}

TEST(MemoryBudget, ManyThreadsNeverExceedTheLimitAndEndAtZero) {
  MemoryBudget budget(1000);
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&budget, seed] {
      std::mt19937 random(seed);
      std::vector<MemoryReservation> held;
      for (int i = 0; i < 5000; ++i) {
        if (absl::StatusOr<MemoryReservation> r = budget.Reserve(random() % 200, random() % 100);
            r.ok()) {
          held.push_back(*std::move(r));
        }
        const MemoryUsage usage = budget.usage();
        ASSERT_LE(usage.in_flight_bytes + usage.workspace_bytes, usage.limit_bytes);
        if (held.size() > 3) held.erase(held.begin());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget.usage().free_bytes(), 1000u);
}

}  // namespace
}  // namespace gemmd
