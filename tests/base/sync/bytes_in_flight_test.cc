#include "base/sync/bytes_in_flight.h"

#include <atomic>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace gemmd {
namespace {

TEST(BytesInFlight, WhatIsAloneEntersHoweverLargeItIs) {
  BytesInFlight in_flight(10);
  in_flight.Enter(1000);
  in_flight.Leave(1000);
  in_flight.Enter(10);
  in_flight.Leave(10);
  in_flight.Enter(0);
  in_flight.Leave(0);
}

TEST(BytesInFlight, WhatShrinksLetsOthersIn) {
  BytesInFlight in_flight(10);
  in_flight.Enter(9);
  in_flight.Shrink(5);
  in_flight.Enter(6);
  in_flight.Leave(6);
  in_flight.Leave(4);
}

// Ends only if each that leaves lets others in.
TEST(BytesInFlight, ManyThreadsStayWithinTheBound) {
  constexpr std::uint64_t kMost = 100;
  BytesInFlight in_flight(kMost);
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<int> count{0};
  std::atomic<int> beyond{0};
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      for (int i = 0; i < 5000; ++i) {
        const std::uint64_t size = random() % 120;
        in_flight.Enter(size);
        // Those that leave take themselves off first, so no sum is too large.
        const int now = ++count;
        const std::uint64_t sum = (bytes += size);
        if (sum > kMost && now > 1) ++beyond;
        bytes -= size;
        --count;
        in_flight.Leave(size);
      }
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(beyond, 0);
}

}  // namespace
}  // namespace gemmd
