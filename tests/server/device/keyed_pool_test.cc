#include "server/device/keyed_pool.h"

#include <array>
#include <atomic>
#include <future>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace gemmd {
namespace {

TEST(KeyedPoolTest, TasksOfOneKeyAreCarriedOutOneAfterAnotherAsTheyCame) {
  constexpr int kKeys = 5;
  std::array<std::vector<int>, kKeys> order;  // unguarded: a key's tasks never meet
  std::array<int, kKeys> posted{};
  std::atomic<int> met = 0;
  std::array<std::atomic<int>, kKeys> running{};
  {
    KeyedPool pool(4);
    std::mt19937 random(1);
    for (int i = 0; i < 20000; ++i) {
      const std::size_t key = random() % kKeys;
      pool.Post(key, [&, key, number = posted[key]] {
        if (++running[key] != 1) ++met;
        order[key].push_back(number);
        --running[key];
      });
      ++posted[key];
    }
  }
  EXPECT_EQ(met, 0);
  for (std::size_t key = 0; key < kKeys; ++key) {
    ASSERT_EQ(order[key].size(), static_cast<std::size_t>(posted[key]));
    for (int i = 0; i < posted[key]; ++i) ASSERT_EQ(order[key][static_cast<std::size_t>(i)], i);
  }
}

TEST(KeyedPoolTest, TasksOfTwoKeysRunAtTheSameTime) {
  std::promise<void> first;
  std::promise<void> second;
  std::promise<void> done;
  KeyedPool pool(2);
  // Neither ends before the other has begun.
  pool.Post(1, [&] {
    first.set_value();
    second.get_future().wait();
    done.set_value();
  });
  pool.Post(2, [&] {
    second.set_value();
    first.get_future().wait();
  });
  done.get_future().wait();
}

TEST(KeyedPoolTest, ATaskMayPostToItsOwnKey) {
  std::atomic<int> ran = 0;
  std::promise<void> done;
  KeyedPool pool(1);
  pool.Post(7, [&] {
    ++ran;
    pool.Post(7, [&] {
      ++ran;
      done.set_value();
    });
  });
  done.get_future().wait();
  EXPECT_EQ(ran, 2);
}

}  // namespace
}  // namespace gemmd
