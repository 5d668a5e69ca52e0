#include "server/device/cuda/memory/pinned_pool.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/fake_cuda.h"

namespace gemmd {
namespace {

constexpr std::uint64_t kSlab = 4096;

std::shared_ptr<PinnedPool> NewPool(std::uint64_t slabs) {
  return *PinnedPool::Create(std::make_shared<testing::FakeCuda>(1), kSlab, slabs);
}

// The pool is compared with a set of what is free.
TEST(PinnedPoolTest, SingleSlabsAreTheLowestAndNeighboursTheFirst) {
  for (const std::uint64_t slabs : {1, 63, 64, 65, 200}) {
    SCOPED_TRACE(slabs);
    std::mt19937 random(static_cast<unsigned>(slabs));
    const std::shared_ptr<PinnedPool> pool = NewPool(slabs);
    std::set<std::uint64_t> free;
    for (std::uint64_t i = 0; i < slabs; ++i) free.insert(i);
    HostBuffer all = *pool->Take(slabs);
    char* const memory = all.front().data;
    all.clear();
    struct Taken {
      HostBuffer buffer;
      std::vector<std::uint64_t> slabs;
    };
    std::vector<Taken> taken;
    for (int step = 0; step < 2000; ++step) {
      const std::uint64_t count = 1 + random() % 5;
      if (random() % 2 == 0 && !taken.empty()) {
        std::swap(taken[random() % taken.size()], taken.back());
        free.insert(taken.back().slabs.begin(), taken.back().slabs.end());
        taken.pop_back();
      } else if (random() % 2 == 0) {
        absl::StatusOr<HostBuffer> buffer = pool->Take(count);
        ASSERT_EQ(buffer.ok(), count <= free.size()) << buffer.status();
        if (!buffer.ok()) continue;
        Taken now{*std::move(buffer), {}};
        for (const HostPiece& piece : now.buffer) {
          EXPECT_EQ(piece.size_bytes, kSlab);
          EXPECT_EQ(piece.data, memory + *free.begin() * kSlab);
          now.slabs.push_back(*free.begin());
          free.erase(free.begin());
        }
        taken.push_back(std::move(now));
      } else {
        const auto is_free = [&](std::uint64_t slab) { return free.count(slab) != 0; };
        std::uint64_t first = 0;
        const auto fits = [&] {
          for (std::uint64_t i = 0; i < count; ++i) {
            if (!is_free(first + i)) return false;
          }
          return true;
        };
        while (first < slabs && !fits()) ++first;
        const std::uint64_t bytes = count * kSlab - random() % kSlab;
        std::optional<HostPiece> piece = pool->TakeInOnePiece(bytes);
        ASSERT_EQ(piece.has_value(), first < slabs);
        if (!piece.has_value()) continue;
        EXPECT_EQ(piece->data, memory + first * kSlab);
        EXPECT_EQ(piece->size_bytes, bytes);
        Taken now{{*std::move(piece)}, {}};
        for (std::uint64_t i = 0; i < count; ++i) {
          now.slabs.push_back(first + i);
          free.erase(first + i);
        }
        taken.push_back(std::move(now));
      }
      ASSERT_EQ(pool->usage().in_flight_bytes, (slabs - free.size()) * kSlab);
    }
    taken.clear();
    EXPECT_EQ(pool->usage().in_flight_bytes, 0u);
  }
}

TEST(PinnedPoolTest, WhatIsAskedForAtMost) {
  const std::shared_ptr<PinnedPool> pool = NewPool(3);
  EXPECT_FALSE(pool->TakeInOnePiece(0).has_value());
  EXPECT_FALSE(pool->TakeInOnePiece(3 * kSlab + 1).has_value());
  EXPECT_EQ(pool->Take(4).status().code(), absl::StatusCode::kInvalidArgument);
  const HostBuffer two = *pool->Take(2);
  EXPECT_EQ(pool->Take(2).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(pool->Take(0)->empty());
}

TEST(PinnedPoolTest, SlabsOutliveThePool) {
  const auto cuda = std::make_shared<testing::FakeCuda>(1);
  std::shared_ptr<PinnedPool> pool = *PinnedPool::Create(cuda, kSlab, 2);
  HostBuffer buffer = *pool->Take(2);
  pool.reset();
  EXPECT_EQ(cuda->pinned_bytes(), 2 * kSlab);
  std::fill_n(buffer[1].data, kSlab, 'x');
  buffer.clear();
  EXPECT_EQ(cuda->pinned_bytes(), 0u);
}

TEST(PinnedPoolTest, NoSlabIsGivenTwiceToSeveralThreads) {
  const std::shared_ptr<PinnedPool> pool = NewPool(70);
  std::vector<std::thread> threads;
  for (unsigned id = 1; id <= 4; ++id) {
    threads.emplace_back([&pool, id] {
      std::mt19937 random(id);
      std::vector<HostPiece> mine;
      for (int step = 0; step < 3000; ++step) {
        if (mine.size() > 10) {
          const HostPiece& oldest = mine.front();
          const bool is_mine = std::all_of(oldest.data, oldest.data + oldest.size_bytes,
                                           [id](char c) { return c == static_cast<char>(id); });
          ASSERT_TRUE(is_mine);
          mine.erase(mine.begin());
        }
        std::optional<HostPiece> piece = pool->TakeInOnePiece(1 + random() % (3 * kSlab));
        if (!piece.has_value()) continue;
        std::fill_n(piece->data, piece->size_bytes, static_cast<char>(id));
        mine.push_back(*std::move(piece));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool->usage().in_flight_bytes, 0u);
}

}  // namespace
}  // namespace gemmd
