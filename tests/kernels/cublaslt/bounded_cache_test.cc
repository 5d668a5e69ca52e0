#include "kernels/cublaslt/bounded_cache.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace gemmd::cublaslt {
namespace {

TEST(BoundedCache, ForgetsWhatWasNotAskedForLongest) {
  BoundedCache<int, int> cache(2);
  cache.Insert(1, 10);
  cache.Insert(2, 20);
  EXPECT_EQ(cache.Find(1), 10);  // 2 is the oldest now
  cache.Insert(3, 30);
  EXPECT_EQ(cache.size(), 2u);
  EXPECT_EQ(cache.Find(2), std::nullopt);
  EXPECT_EQ(cache.Find(1), 10);
  EXPECT_EQ(cache.Find(3), 30);
}

TEST(BoundedCache, TheFirstValueStays) {
  BoundedCache<int, int> cache(2);
  EXPECT_EQ(cache.Insert(1, 10), 10);
  EXPECT_EQ(cache.Insert(1, 11), 10);
  EXPECT_EQ(cache.Find(1), 10);
}

TEST(BoundedCache, ThreadsSeeWholeValuesAndTheBoundHolds) {
  BoundedCache<int, int> cache(16);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&cache, t] {
      for (int i = 0; i < 2000; ++i) {
        const int key = (i * 7 + t) % 40;
        if (const auto found = cache.Find(key)) {
          EXPECT_EQ(*found, key * 3);
        } else {
          cache.Insert(key, key * 3);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cache.size(), 16u);
}

}  // namespace
}  // namespace gemmd::cublaslt
