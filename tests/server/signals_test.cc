#include "server/signals.h"

#include <unistd.h>

#include <cerrno>
#include <random>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace gemmd {
namespace {

constexpr int kByUrgency[] = {Signals::kDeviceLost, SIGTERM, SIGINT, Signals::kDrain, SIGHUP};

// One in the process.
const Signals& TheSignals() {
  static const Signals signals;
  return signals;
}

// As the system, a device or a call does.
void Send(int signal) {
  const bool is_caught = signal != Signals::kDeviceLost && signal != Signals::kDrain;
  is_caught ? static_cast<void>(raise(signal)) : Signals::Raise(signal);
}

int MostUrgent(const std::set<int>& pending) {
  for (const int signal : kByUrgency) {
    if (pending.count(signal) != 0) return signal;
  }
  return 0;
}

TEST(SignalsTest, TellsEachOnceTheMostUrgentFirst) {
  const Signals& signals = TheSignals();
  std::mt19937 random(7);
  for (int history = 0; history < 200; ++history) {
    std::set<int> pending;
    for (int step = 0; step < 100; ++step) {
      if (random() % 3 != 0) {
        const int signal = kByUrgency[random() % 5];
        for (unsigned times = 1 + random() % 3; times > 0; --times) Send(signal);
        pending.insert(signal);
      } else {
        const int expected = MostUrgent(pending);
        ASSERT_EQ(signals.Wait(0), expected) << "history " << history << ", step " << step;
        pending.erase(expected);
      }
    }
    while (signals.Wait(0) != 0) {
    }
  }
}

TEST(SignalsTest, NoNumberOfHangupsKeepsATerminationWaiting) {
  const Signals& signals = TheSignals();
  constexpr int kMoreThanAPipeHolds = 70000;
  for (int i = 0; i < kMoreThanAPipeHolds; ++i) Send(SIGHUP);
  Send(SIGTERM);
  EXPECT_EQ(signals.Wait(0), SIGTERM);
  EXPECT_EQ(signals.Wait(0), SIGHUP);
  EXPECT_EQ(signals.Wait(0), 0);
}

TEST(SignalsTest, HangupsAndCallsOfDrainStopNothingThatDrains) {
  const Signals& signals = TheSignals();
  Send(SIGHUP);
  EXPECT_FALSE(signals.AwaitStop(0));
  Send(Signals::kDrain);
  EXPECT_FALSE(signals.AwaitStop(0));
  Send(SIGHUP);
  Send(SIGINT);
  EXPECT_TRUE(signals.AwaitStop(0));
  EXPECT_FALSE(signals.AwaitStop(0));
}

TEST(SignalsTest, WhatIsInterruptedKeepsItsErrno) {
  TheSignals();
  errno = EDOM;
  raise(SIGHUP);
  EXPECT_EQ(errno, EDOM);
  EXPECT_EQ(TheSignals().Wait(0), SIGHUP);
}

}  // namespace
}  // namespace gemmd
