#include "server/net/partial_messages.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/time/units.h"
#include "gtest/gtest.h"

namespace gemmd {
namespace {

constexpr TimeNs kPeriod = kSecond / 2;
constexpr std::uint64_t kMiB = 1 << 20;
constexpr ProgressLimit kLimit{30 * kSecond, 16384};

// A connection that is looked at every half a second.
class Watched {
 public:
  Watched() { Look(); }

  void Limit(const ProgressLimit& limit) { limit_ = limit; }
  void Bring(std::uint64_t bytes) { traffic_.received += bytes; }
  void Send(std::uint64_t bytes) { traffic_.sent += bytes; }
  void EndMessage(std::uint64_t bytes) {
    events_.explained += PartialMessages::OfMessage(bytes);
    events_.whole += bytes;
  }
  void Read(bool is_reading) { is_reading_ = is_reading; }
  void BeginCall(std::uint64_t headers) { events_.explained += PartialMessages::OfCall(headers); }
  void EndWithin(std::uint64_t before) { events_.most = std::min(events_.most, before); }
  void HoldBack(bool is_held_back) { is_held_back_ = is_held_back; }
  void HaveCalls(bool has_calls) { has_calls_ = has_calls; }

  void Look() {
    now_ += kPeriod;
    messages_.Look(traffic_, events(), limit_, now_);
    events_ = {};
  }
  void Leave(std::uint64_t bytes) { traffic_.unread = bytes; }
  PartialMessages::Present Now() const { return messages_.Now(traffic_, events()); }
  // Looks for so long; returns whether it never stalled.
  bool Rest(TimeNs time) {
    bool is_well = true;
    for (TimeNs end = now_ + time; now_ < end;) {
      Look();
      is_well = is_well && !IsStalled();
    }
    return is_well;
  }

  bool IsStalled() const { return messages_.IsStalled(now_); }
  std::uint64_t bytes() const { return messages_.bytes(); }
  std::uint64_t hidden() const { return messages_.hidden(); }
  std::uint64_t lasting() const { return messages_.lasting(); }

 private:
  PartialMessages::Events events() const {
    PartialMessages::Events events = events_;
    events.is_held_back = is_held_back_;
    events.has_calls = has_calls_;
    events.is_reading = is_reading_;
    return events;
  }

  PartialMessages messages_;
  ProgressLimit limit_ = kLimit;
  ConnectionTraffic traffic_;
  PartialMessages::Events events_;
  bool is_held_back_ = false;
  bool has_calls_ = true;
  bool is_reading_ = true;
  TimeNs now_ = 0;
};

TEST(PartialMessages, HalfAMessageStallsAfterTheWindow) {
  Watched connection;
  connection.Bring(10 * kMiB);
  EXPECT_TRUE(connection.Rest(30 * kSecond));
  EXPECT_FALSE(connection.Rest(2 * kSecond));
  EXPECT_GT(connection.lasting(), 9 * kMiB);
}

TEST(PartialMessages, AByteNowAndThenChangesNothing) {
  Watched connection;
  connection.Bring(10 * kMiB);
  bool is_well = true;
  for (int i = 0; i < 80; ++i) {
    connection.Bring(1000);
    is_well = is_well && connection.Rest(kPeriod);
  }
  EXPECT_FALSE(is_well);
}

TEST(PartialMessages, AFewBytesAreNotAskedFor) {
  Watched connection;
  connection.Bring(PartialMessages::kFewBytes);
  EXPECT_TRUE(connection.Rest(300 * kSecond));
}

TEST(PartialMessages, ASlowClientIsWell) {
  Watched connection;
  constexpr std::uint64_t kMessage = 64 * kMiB;
  for (int i = 0; i < 3; ++i) {
    for (std::uint64_t sent = 0; sent < kMessage; sent += kMiB) {
      connection.Bring(kMiB + 600);
      EXPECT_TRUE(connection.Rest(kSecond));
    }
    EXPECT_GT(connection.lasting(), kMessage / 2);
    connection.EndMessage(kMessage);
    EXPECT_TRUE(connection.Rest(600 * kSecond)) << "though it is idle for minutes";
    EXPECT_EQ(connection.bytes(), 0U);
    EXPECT_EQ(connection.lasting(), 0U);
  }
}

TEST(PartialMessages, WhatComesFastDoesNotLast) {
  Watched connection;
  for (int i = 0; i < 20; ++i) {
    connection.Bring(64 * kMiB);
    connection.Look();
    EXPECT_GE(connection.bytes(), 63 * kMiB);
    connection.EndMessage(64 * kMiB);
    connection.Look();
    EXPECT_EQ(connection.lasting(), 0U);
  }
}

// The client sends frames of 16 KiB over TLS, reads all that it is sent, asks for pings, and has
// headers that are not packed.
TEST(PartialMessages, NothingIsLeftOfAnHonestClient) {
  constexpr std::uint64_t kFrame = 16384;
  constexpr std::uint64_t kFrameBytes = 9 + 29;
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const std::uint64_t headers = random() % 2000;
    const std::uint64_t most = std::uint64_t{1} << (4 + random() % 20);
    Watched connection;
    for (int i = 0; i < 2000; ++i) {
      for (unsigned calls = random() % 8; calls > 0; --calls) {
        const std::uint64_t message = random() % most;
        const std::uint64_t answer = random() % most;
        connection.Bring(headers + 400 + kFrameBytes);
        connection.BeginCall(headers);
        connection.Bring(5 + message + (1 + message / kFrame) * kFrameBytes);
        connection.EndMessage(message);
        connection.Send(answer + 100);
        connection.Bring(2 * 13 * (answer / kFrame));  // window updates
      }
      connection.Bring(17);
      connection.Look();
      ASSERT_LT(connection.bytes(), 4096U) << seed;
    }
  }
}

TEST(PartialMessages, ACallThatEndsWithinAMessageLeavesWhatWasBefore) {
  Watched connection;
  connection.Bring(2 * kMiB);
  connection.Look();
  const std::uint64_t before = connection.bytes();
  connection.Bring(20 * kMiB);
  connection.Look();
  connection.EndWithin(before);
  connection.Look();
  EXPECT_LE(connection.bytes(), before);
  EXPECT_GT(connection.bytes(), kMiB);
}

TEST(PartialMessages, WhatWasUnderWayToACallThatEndedIsNotKept) {
  Watched connection;
  connection.EndWithin(0);
  connection.Look();
  connection.Bring(20 * kMiB);
  EXPECT_TRUE(connection.Rest(60 * kSecond));
  connection.Bring(20 * kMiB);
  EXPECT_FALSE(connection.Rest(60 * kSecond)) << "which is not that call's any more";
}

TEST(PartialMessages, NothingIsKeptOfCallsThatHaveEnded) {
  for (const bool is_seen : {true, false}) {
    Watched connection;
    connection.HaveCalls(is_seen);
    connection.Bring(20 * kMiB);
    connection.Look();
    connection.HaveCalls(false);
    if (!is_seen) connection.BeginCall(100);  // it came and went between two looks
    connection.Look();
    EXPECT_EQ(connection.bytes(), 0U);
    EXPECT_TRUE(connection.Rest(60 * kSecond));
  }
}

TEST(PartialMessages, HeadersThatNeverEndAreNoCall) {
  Watched connection;
  connection.HaveCalls(false);
  connection.Look();
  connection.Bring(16 * kMiB);
  EXPECT_TRUE(connection.Rest(30 * kSecond));
  EXPECT_GT(connection.lasting(), 15 * kMiB);
  EXPECT_FALSE(connection.Rest(2 * kSecond));
}

TEST(PartialMessages, NothingIsAskedForWhileTheServerDoesNotRead) {
  Watched connection;
  connection.HoldBack(true);
  connection.Bring(20 * kMiB);
  EXPECT_TRUE(connection.Rest(300 * kSecond));
  EXPECT_EQ(connection.lasting(), 0U);
  connection.HoldBack(false);
  EXPECT_TRUE(connection.Rest(29 * kSecond));
  EXPECT_FALSE(connection.Rest(3 * kSecond));
}

TEST(PartialMessages, AnotherConnectionOfTheSameEndpointBeginsAnew) {
  PartialMessages messages;
  messages.Look({100 * kMiB, 0, 0}, {}, kLimit, kSecond);
  EXPECT_GT(messages.bytes(), 99 * kMiB);
  messages.Look({1000, 0, 0}, {}, kLimit, 2 * kSecond);
  EXPECT_EQ(messages.bytes(), 0U);
}

TEST(PartialMessages, WhatComesFastIsThereAtOnce) {
  PartialMessages messages;
  EXPECT_GT(messages.Now({10 * kMiB, 0, 0}, {}).bytes, 9 * kMiB) << "before the first look";
  messages.Look({10 * kMiB, 0, 0}, {}, kLimit, kSecond);
  EXPECT_GT(messages.Now({90 * kMiB, 0, 0}, {}).bytes, 89 * kMiB);
  EXPECT_LT(messages.Now({90 * kMiB, 0, 60 * kMiB}, {}).bytes, 30 * kMiB) << "gRPC has less";
  EXPECT_LT(messages.Now({9 * kMiB, 0, 0}, {}).bytes, 9 * kMiB) << "another connection";
  PartialMessages::Events events;
  events.explained = PartialMessages::OfMessage(80 * kMiB);
  EXPECT_LT(messages.Now({90 * kMiB, 0, 0}, events).bytes, 10 * kMiB);
  events = {};
  events.is_held_back = true;
  EXPECT_GT(messages.Now({90 * kMiB, 0, 0}, events).bytes, 89 * kMiB) << "it is there all the same";
  events.has_calls = false;
  EXPECT_EQ(messages.Now({90 * kMiB, 0, 0}, events).bytes, 0U);
}

TEST(PartialMessages, WhatEndedCallsTookAlongMayBeHidden) {
  Watched connection;
  connection.Bring(10 * kMiB);
  connection.EndWithin(kMiB);
  const PartialMessages::Present soon = connection.Now();
  EXPECT_LE(soon.bytes, kMiB);
  EXPECT_GT(soon.hidden, 8 * kMiB);
  connection.Look();
  EXPECT_LE(connection.bytes(), kMiB);
  EXPECT_GT(connection.hidden(), 8 * kMiB);
  connection.Bring(5 * kMiB);  // which may be the ended call's yet
  connection.Look();
  EXPECT_GT(connection.hidden(), 13 * kMiB);
  EXPECT_EQ(connection.Now().hidden, connection.hidden());
  connection.EndMessage(10 * kMiB);  // so it was another call's
  EXPECT_LT(connection.Now().hidden, 5 * kMiB);
  connection.Look();
  EXPECT_LT(connection.hidden(), 5 * kMiB);
  EXPECT_GT(connection.hidden(), 4 * kMiB);
  connection.Read(false);
  EXPECT_EQ(connection.Now().hidden, 0U);
  connection.Look();
  EXPECT_EQ(connection.hidden(), 0U);
}

// Clients send parts of messages, end messages and end calls as a random history has it. They never
// keep more than the estimate and what may be hidden. Where a client ends no call within a message,
// both together are not too high.
TEST(PartialMessages, NobodyKeepsMoreThanTheEstimateAndWhatMayBeHidden) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    const bool is_honest = seed % 2 == 0;
    struct Call {
      std::uint64_t bytes = 0;
      std::uint64_t partial_before = 0;
    };
    Watched connection;
    std::vector<Call> calls(1);
    std::uint64_t slack = 65536;  // of the connection's first bytes, and by generous explanations
    for (int step = 0; step < 300; ++step) {
      Call& call = calls[random() % calls.size()];
      switch (random() % 8) {
        case 0:
          connection.Bring(50);
          connection.BeginCall(0);
          slack += PartialMessages::OfCall(0);
          calls.push_back({0, connection.bytes()});
          break;
        case 1:
          connection.EndMessage(call.bytes);
          slack += PartialMessages::OfMessage(call.bytes) - call.bytes;
          call.bytes = 0;
          break;
        case 2:
          if (calls.size() == 1 || (is_honest && call.bytes != 0)) break;
          connection.EndWithin(call.partial_before);
          std::swap(call, calls.back());
          calls.pop_back();
          break;
        case 3:
          connection.Look();
          slack += 64;  // of half a second
          break;
        default:
          const std::uint64_t bytes = random() % kMiB;
          connection.Bring(bytes + 9);
          call.bytes += bytes;
      }
      std::uint64_t kept = 0;
      for (const Call& each : calls) kept += each.bytes;
      const PartialMessages::Present now = connection.Now();
      ASSERT_LE(kept, now.bytes + now.hidden + slack) << seed << ", " << step;
      if (is_honest) {
        ASSERT_LE(now.bytes + now.hidden, kept + slack) << seed << ", " << step;
      }
    }
  }
}

// A message has the limit of the time at which it began.
TEST(PartialMessages, WhileTheLimitChangesWhoGoesOnIsLeftAndWhoStopsIsNot) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    const auto any = [&random] {
      return ProgressLimit{static_cast<TimeNs>(2 + random() % 60) * kSecond, 1 + random() % kMiB};
    };
    Watched connection;
    const ProgressLimit first = any();
    connection.Limit(first);
    for (int look = 0; look < 200; ++look) {
      connection.Bring(kMiB);
      connection.Look();
      ASSERT_FALSE(connection.IsStalled()) << seed << ", " << look;
      if (random() % 4 == 0) connection.Limit(any());
    }
    EXPECT_TRUE(connection.Rest(first.window)) << seed;
    EXPECT_FALSE(connection.Rest(kPeriod)) << seed;
  }
}

TEST(HoldersInTheWay, AreClosedBeforeAllIsFull) {
  const PartialLimits limits{100, 50, 150, {}};
  EXPECT_TRUE(HoldersInTheWay(limits, {{"a1", "a", 90, 0}, {"b1", "b", 60, 0}}).empty());
  EXPECT_EQ(HoldersInTheWay(limits, {{"a1", "a", 90, 0}, {"b1", "b", 61, 0}}),
            std::vector<std::string>{"a1"});
  EXPECT_EQ(
      HoldersInTheWay(
          limits, {{"a1", "a", 40, 0}, {"b1", "b", 40, 0}, {"c1", "c", 40, 0}, {"d1", "d", 40, 0}})
          .size(),
      2U)
      << "so that there is room again";
  // Those that may hide something go first, and no more of them than must.
  EXPECT_EQ(HoldersInTheWay(limits, {{"a1", "a", 90, 0}, {"b1", "b", 5, 30}, {"b2", "b", 5, 25}}),
            std::vector<std::string>{"b1"});
  EXPECT_EQ(HoldersInTheWay(limits, {{"a1", "a", 140, 0}, {"b1", "b", 11, 90}}),
            std::vector<std::string>{"a1"});
}

TEST(HoldersOver, AreTheLargestOfTheAddressThatHasTheMost) {
  const PartialLimits limits{100, 50, 150, {"proxy"}};
  EXPECT_TRUE(HoldersOver(limits, {}).empty());
  EXPECT_TRUE(HoldersOver(limits, {{"a1", "a", 50, 0}, {"b1", "b", 50, 0}}).empty());
  EXPECT_EQ(HoldersOver(limits, {{"a1", "a", 20, 0}, {"a2", "a", 25, 0}, {"a3", "a", 10, 0}}),
            std::vector<std::string>{"a2"});
  EXPECT_TRUE(HoldersOver(limits, {{"p1", "proxy", 60, 0}, {"p2", "proxy", 40, 0}}).empty());
  // Each address is below its limit, and all are above theirs.
  EXPECT_EQ(
      HoldersOver(limits,
                  {{"a1", "a", 45, 0}, {"b1", "b", 24, 0}, {"b2", "b", 25, 0}, {"c1", "c", 40, 0}}),
      (std::vector<std::string>{"b2", "a1"}));
}

}  // namespace
}  // namespace gemmd
