#include "server/rpc/calls/call_watch.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/time/units.h"
#include "gtest/gtest.h"
#include "server/rpc/calls/peer.h"
#include "server/tenants/retry_after.h"
#include "tests/testing/fake_clock.h"

namespace gemmd {
namespace {

class FakeCall final : public WatchedCall {
 public:
  using WatchedCall::CountMessage;
  using WatchedCall::IsMessageComing;
  using WatchedCall::progress_limit;
  using WatchedCall::SetDue;
  using WatchedCall::SetHeldBack;
  using WatchedCall::SetReading;
  TimeNs OnLate(TimeNs now) override {
    ++late;
    is_message_coming = IsMessageComing(now);
    return next;
  }
  std::uint64_t IdleBytes(TimeNs before) override { return since <= before ? idle_bytes : 0; }
  void Recall(TimeNs before) override {
    EXPECT_LE(since, before);
    ++recalled;
    idle_bytes = 0;
  }
  using WatchedCall::IsMoving;
  std::uint64_t idle_bytes = 0;
  TimeNs since = 0;  // nothing moved
  int recalled = 0;
  int late = 0;
  bool is_message_coming = false;  // when it was late last
  TimeNs next = kNoDeadline;
};

class CallWatchTest : public ::testing::Test {
 protected:
  static CallWatch::Options SmallOptions() {
    CallWatch::Options options;
    options.limits.calls = 6;
    return options;
  }

  testing::FakeClock clock_;
  CallWatch watch_{
      SmallOptions(), &clock_, std::chrono::milliseconds(0),
      [](const std::string& /*peer*/, absl::string_view /*why*/, ConnectionTable::Reopening) {},
      [] { return ConnectionTable::Traffic(); }};
};

TEST_F(CallWatchTest, ACallIsLateOnceForEachTimeThatPasses) {
  FakeCall call;
  EXPECT_TRUE(watch_.Add(&call, "ipv4:a:1", 0).ok());
  watch_.Look();
  EXPECT_EQ(call.late, 0);
  call.SetDue(clock_.Now() + 5);
  call.next = clock_.Now() + 10;
  clock_.Advance(5);
  watch_.Look();
  EXPECT_EQ(call.late, 0);
  clock_.Advance(1);
  watch_.Look();
  watch_.Look();
  EXPECT_EQ(call.late, 1);
  call.next = kNoDeadline;
  clock_.Advance(5);
  watch_.Look();
  watch_.Look();
  EXPECT_EQ(call.late, 2);
  call.SetDue(0);
  watch_.Remove(&call);
  watch_.Look();
  EXPECT_EQ(call.late, 2);
}

TEST_F(CallWatchTest, TellsWhichAddressesHaveMostCalls) {
  std::deque<FakeCall> calls(6);
  const char* const peers[] = {"ipv4:a:1", "ipv4:b:1", "ipv4:b:2",
                               "ipv4:c:1", "ipv4:c:2", "ipv4:b:1"};
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(watch_.Add(&calls[i], peers[i], 0).ok());
  const std::vector<Holding> told = watch_.Read(2);
  ASSERT_EQ(told.size(), 3U);
  EXPECT_EQ(told[0].party, Party::kAll);
  EXPECT_EQ(told[0].held, 6U);
  EXPECT_EQ(told[0].limit, 6U);
  EXPECT_EQ(told[1].name + told[2].name, "bc");
  EXPECT_EQ(told[1].held, 3U);
  EXPECT_EQ(told[1].limit, 32768U);
  EXPECT_EQ(told[2].held, 2U);
  for (FakeCall& call : calls) watch_.Remove(&call);
  EXPECT_EQ(watch_.Read(2).size(), 1U);
}

TEST_F(CallWatchTest, WhereThereAreTooManyEachAddressHasItsPart) {
  std::deque<FakeCall> calls(9);
  for (int i = 0; i < 6; ++i)
    EXPECT_TRUE(watch_.Add(&calls[i], i < 4 ? "ipv4:a:1" : "ipv4:b:1", 0).ok());
  EXPECT_TRUE(watch_.Add(&calls[6], "ipv4:c:1", 0).ok()) << "which had none";
  const absl::Status full = watch_.Add(&calls[7], "ipv4:a:1", 0);
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(full.message(),
            "4 calls of address a are in progress, and the limit is 2 (limits.calls)");
  EXPECT_TRUE(RetryAfterMs(full).has_value());
  EXPECT_FALSE(watch_.MayConnect("a").ok());
  EXPECT_TRUE(watch_.MayConnect("c").ok());
  EXPECT_TRUE(watch_.MayConnect("d").ok());
  for (const int i : {0, 1, 7}) watch_.Remove(&calls[i]);
  EXPECT_TRUE(watch_.Add(&calls[8], "ipv4:a:1", 0).ok());
  EXPECT_TRUE(watch_.MayConnect("a").ok());
  for (const int i : {2, 3, 4, 5, 6, 8}) watch_.Remove(&calls[i]);
}

TEST_F(CallWatchTest, AnAddressHasCallsLeftToOthers) {
  CallWatch::Options options = SmallOptions();
  options.limits.calls_per_address = 3;
  options.proxies = {"10.0.0.9"};
  CallWatch watch(
      options, &clock_, std::chrono::milliseconds(0),
      [](const std::string& /*peer*/, absl::string_view /*why*/, ConnectionTable::Reopening) {},
      [] { return ConnectionTable::Traffic(); });
  std::deque<FakeCall> calls(6);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(watch.MayConnect("10.0.0.1").ok());
    EXPECT_TRUE(watch.Add(&calls[i], absl::StrCat("ipv4:10.0.0.1:", 100 + i), 0).ok());
  }
  EXPECT_FALSE(watch.MayConnect("10.0.0.1").ok());
  EXPECT_TRUE(watch.MayConnect("10.0.0.2").ok());
  const absl::Status full = watch.Add(&calls[3], "ipv4:10.0.0.1:103", 0);
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(full.message(),
            "3 calls of address 10.0.0.1 are in progress, and the limit is 3 (limits.calls)");
  EXPECT_TRUE(RetryAfterMs(full).has_value());
  EXPECT_TRUE(watch.Add(&calls[4], "ipv4:10.0.0.2:100", 0).ok());
  watch.Remove(&calls[3]);
  watch.Remove(&calls[0]);
  EXPECT_TRUE(watch.Add(&calls[5], "ipv4:10.0.0.1:103", 0).ok());
  for (const int i : {1, 2, 4, 5}) watch.Remove(&calls[i]);
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(watch.Add(&calls[i], absl::StrCat("ipv4:10.0.0.9:", i), 0).ok()) << "of a proxy";
  }
  EXPECT_TRUE(watch.MayConnect("10.0.0.9").ok());
  for (FakeCall& call : calls) watch.Remove(&call);
}

// Whatever they were before, a call that comes is measured by the limits that there are now; one
// that is there stays, and goes on by those with which it came.
TEST_F(CallWatchTest, LimitsChangeWhileCallsComeAndGo) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    CallWatch::Limits limits;
    watch_.SetLimits(limits);
    struct Present {
      std::unique_ptr<FakeCall> call;
      std::string address;
      ProgressLimit progress;
    };
    std::vector<Present> present;
    std::map<std::string, std::size_t> counts;
    for (int step = 0; step < 300; ++step) {
      switch (random() % 5) {
        case 0:
          limits = {{static_cast<TimeNs>(random()), random()}, random() % 12, random() % 6};
          watch_.SetLimits(limits);
          break;
        case 1: {
          if (present.empty()) break;
          std::swap(present[random() % present.size()], present.back());
          watch_.Remove(present.back().call.get());
          if (--counts[present.back().address] == 0) counts.erase(present.back().address);
          present.pop_back();
          break;
        }
        default: {
          const std::string address = absl::StrCat("10.0.0.", random() % 4);
          present.push_back({std::make_unique<FakeCall>(), address, limits.progress});
          const std::size_t own = ++counts[address];
          const std::size_t share = present.size() > limits.calls ? limits.calls / counts.size()
                                                                  : limits.calls_per_address;
          const bool is_served = own <= std::max<std::size_t>(1, share);
          const std::string peer = absl::StrCat("ipv4:", address, ":1");
          ASSERT_EQ(watch_.Add(present.back().call.get(), peer, 0).ok(), is_served)
              << seed << ", " << step;
        }
      }
      watch_.Look();
      for (const Present& each : present) {
        ASSERT_EQ(each.call->progress_limit().window, each.progress.window);
        ASSERT_EQ(each.call->progress_limit().bytes_per_second, each.progress.bytes_per_second);
        ASSERT_EQ(each.call->late, 0);
      }
    }
    for (const Present& each : present) watch_.Remove(each.call.get());
  }
}

// No call sees a part of one limit and a part of another.
TEST_F(CallWatchTest, LimitsChangeAsAWhole) {
  const auto limits_of = [](std::uint64_t n) {
    return CallWatch::Limits{{static_cast<TimeNs>(n), n}, 10 * n, n};
  };
  watch_.SetLimits(limits_of(2));
  constexpr int kCalls = 20000;
  std::atomic<bool> has_ended{false};
  std::thread operators([&] {
    for (std::uint64_t n = 2; !has_ended; n = n % 1000 + 2) watch_.SetLimits(limits_of(n));
  });
  std::thread looks([&] {
    while (!has_ended) watch_.Look();
  });
  for (int i = 0; i < kCalls; ++i) {
    FakeCall call;
    EXPECT_TRUE(watch_.Add(&call, "ipv4:10.0.0.1:1", 0).ok());
    const ProgressLimit limit = call.progress_limit();
    EXPECT_EQ(static_cast<std::uint64_t>(limit.window), limit.bytes_per_second);
    watch_.Remove(&call);
  }
  has_ended = true;
  operators.join();
  looks.join();
}

// A watch of connections whose traffic the test makes up.
class MessagesTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kMiB = 1 << 20;
  static constexpr char kPeer[] = "ipv4:10.0.0.1:1";

  static CallWatch::Options WithShares() {
    CallWatch::Options options;
    options.partial = {40 * kMiB, 20 * kMiB, 60 * kMiB, {}};
    return options;
  }
  void Rest(TimeNs time) {
    for (const TimeNs end = clock_.Now() + time; clock_.Now() < end;) {
      clock_.Advance(kSecond / 2);
      watch_.Look();
    }
  }
  bool Rush() {
    clock_.Advance(kMillisecond);
    return watch_.LookForRush();
  }
  std::uint64_t& Received(const char* endpoint) { return traffic_[endpoint].received; }

  testing::FakeClock clock_;
  ConnectionTable::Traffic traffic_;
  std::vector<std::string> closed_;
  CallWatch watch_{
      WithShares(), &clock_, std::chrono::milliseconds(0),
      [this](const std::string& peer, absl::string_view /*why*/, ConnectionTable::Reopening) {
        closed_.push_back(peer);
        traffic_.erase(EndpointOf(peer));
      },
      [this] { return traffic_; }};
};

TEST_F(MessagesTest, WhoDoesNotGoOnWithOneIsClosed) {
  FakeCall call;
  FakeCall idle;
  Received("10.0.0.1:1") = 2000;
  Received("10.0.0.2:1") = 2000;
  ASSERT_TRUE(watch_.Add(&call, kPeer, 0).ok());
  ASSERT_TRUE(watch_.Add(&idle, "ipv4:10.0.0.2:1", 0).ok());
  Received("10.0.0.1:1") += 10 * kMiB;
  Rest(30 * kSecond);
  EXPECT_TRUE(closed_.empty());
  Rest(2 * kSecond);
  EXPECT_EQ(closed_, std::vector<std::string>{kPeer});
  watch_.Remove(&call);
  watch_.Remove(&idle);
}

TEST_F(MessagesTest, OneThatCameExplainsItsBytes) {
  FakeCall call;
  Received("10.0.0.1:1") = 2000;
  ASSERT_TRUE(watch_.Add(&call, kPeer, 0).ok());
  for (int i = 0; i < 10; ++i) {
    Received("10.0.0.1:1") += 10 * kMiB;
    Rest(kSecond);
    call.CountMessage(10 * kMiB);
  }
  Rest(60 * kSecond);
  EXPECT_TRUE(closed_.empty());
  watch_.Remove(&call);
}

TEST_F(MessagesTest, HeadersOfCallsAreExplained) {
  FakeCall idle;
  Received("10.0.0.1:1") = 2000;
  ASSERT_TRUE(watch_.Add(&idle, kPeer, 0).ok());
  for (int i = 0; i < 1000; ++i) {
    FakeCall call;
    Received("10.0.0.1:1") += 1400;
    EXPECT_TRUE(watch_.Add(&call, kPeer, 1200).ok());
    call.SetReading(false);
    watch_.Remove(&call);
    if (i % 100 == 0) Rest(kSecond);
  }
  Rest(60 * kSecond);
  EXPECT_TRUE(closed_.empty());
  watch_.Remove(&idle);
}

TEST_F(MessagesTest, ACallThatEndsWithinOneTakesItAlong) {
  for (const bool is_reading : {true, false}) {
    FakeCall idle;
    FakeCall call;
    Received("10.0.0.1:1") = 2000;
    ASSERT_TRUE(watch_.Add(&idle, kPeer, 0).ok());
    Rest(kSecond);
    ASSERT_TRUE(watch_.Add(&call, kPeer, 0).ok());
    Received("10.0.0.1:1") += 10 * kMiB;
    call.SetReading(is_reading);
    watch_.Remove(&call);
    Rest(60 * kSecond);
    EXPECT_EQ(closed_.empty(), is_reading);
    watch_.Remove(&idle);
    Rest(kSecond);
  }
}

TEST_F(MessagesTest, NoneIsAskedForWhileTheServerHoldsACallBack) {
  FakeCall call;
  Received("10.0.0.1:1") = 2000;
  ASSERT_TRUE(watch_.Add(&call, kPeer, 0).ok());
  call.SetHeldBack(true);
  Received("10.0.0.1:1") += 30 * kMiB;
  Rest(60 * kSecond);
  EXPECT_TRUE(closed_.empty());
  watch_.Remove(&call);
  Rest(20 * kSecond);
  FakeCall other;
  ASSERT_TRUE(watch_.Add(&other, kPeer, 0).ok());
  Received("10.0.0.1:1") += 10 * kMiB;
  Rest(60 * kSecond);
  EXPECT_FALSE(closed_.empty()) << "the call that was held back has gone";
  watch_.Remove(&other);
}

TEST_F(MessagesTest, HeadersOfNoCallAreAskedForToo) {
  Received("10.0.0.1:1") = 2000;
  Received("[2001:db8::1]:1") = 2000;
  Rest(kSecond);
  Received("[2001:db8::1]:1") += 10 * kMiB;
  Rest(60 * kSecond);
  EXPECT_EQ(closed_, std::vector<std::string>{"ipv6:[2001:db8::1]:1"});
}

TEST_F(MessagesTest, ACallWithHeadersBeyondTheSettingsEndsItsConnection) {
  FakeCall fits;
  EXPECT_TRUE(watch_.Add(&fits, kPeer, 16384).ok());
  EXPECT_TRUE(closed_.empty());
  FakeCall call;
  EXPECT_EQ(watch_.Add(&call, kPeer, 16385).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(closed_, std::vector<std::string>{kPeer});
  watch_.Remove(&fits);
  watch_.Remove(&call);
}

TEST_F(MessagesTest, AnAddressKeepsItsShareOfThem) {
  std::deque<FakeCall> calls(3);
  for (int i = 0; i < 3; ++i) {
    const std::string endpoint = absl::StrCat("10.0.0.1:", i);
    Received(endpoint.c_str()) = 2000;
    ASSERT_TRUE(watch_.Add(&calls[i], "ipv4:" + endpoint, 0).ok());
  }
  Received("10.0.0.1:0") += 7 * kMiB;
  Received("10.0.0.1:1") += 8 * kMiB;
  Rest(10 * kSecond);
  EXPECT_TRUE(closed_.empty());
  Received("10.0.0.1:2") += 9 * kMiB;
  Rest(kSecond);
  EXPECT_TRUE(closed_.empty()) << "it may come fast";
  Rest(4 * kSecond);
  EXPECT_EQ(closed_, std::vector<std::string>{"ipv4:10.0.0.1:2"});
  for (FakeCall& call : calls) watch_.Remove(&call);
}

TEST_F(MessagesTest, ALateCallIsToldWhetherAMessageComes) {
  FakeCall call;
  call.next = 0;
  call.SetDue(0);
  Received("10.0.0.1:1") = 2000;
  ASSERT_TRUE(watch_.Add(&call, kPeer, 0).ok());
  Rest(kSecond);
  EXPECT_FALSE(call.is_message_coming);
  for (int i = 0; i < 60; ++i) {
    Received("10.0.0.1:1") += kMiB;
    Rest(kSecond);
    EXPECT_TRUE(call.is_message_coming);
  }
  Rest(31 * kSecond);
  EXPECT_FALSE(call.is_message_coming) << "it came";
  watch_.Remove(&call);
}

TEST_F(MessagesTest, ARushEndsTheLargestAtOnce) {
  std::deque<FakeCall> calls(3);
  for (int i = 0; i < 3; ++i) {
    const std::string endpoint = absl::StrCat("10.0.0.", i, ":1");
    Received(endpoint.c_str()) = 2000;
    ASSERT_TRUE(watch_.Add(&calls[i], "ipv4:" + endpoint, 0).ok());
  }
  Rest(kSecond);
  Received("10.0.0.0:1") += 14 * kMiB;
  EXPECT_FALSE(Rush());
  Received("10.0.0.0:1") += 4 * kMiB;
  Received("10.0.0.1:1") += 30 * kMiB;
  EXPECT_TRUE(Rush()) << "it looks again soon";
  EXPECT_TRUE(closed_.empty());
  Received("10.0.0.2:1") += 15 * kMiB;
  traffic_["10.0.0.2:1"].unread = 5 * kMiB;
  Rush();
  EXPECT_TRUE(closed_.empty()) << "the system has the rest";
  traffic_["10.0.0.2:1"].unread = 0;
  calls[0].CountMessage(10 * kMiB);
  Rush();
  EXPECT_TRUE(closed_.empty()) << "which a message explains";
  Received("10.0.0.0:1") += 10 * kMiB;
  Rush();
  EXPECT_EQ(closed_, std::vector<std::string>{"ipv4:10.0.0.1:1"});
  for (FakeCall& call : calls) watch_.Remove(&call);
}

// Calls that end within a message take its bytes along. Those may have been another call's, which
// is seen when that one's message is whole.
TEST_F(MessagesTest, WhoMayHideTooMuchIsClosed) {
  for (const bool is_message_whole : {true, false}) {
    FakeCall keeper;
    Received("10.0.0.1:1") += 2000;
    ASSERT_TRUE(watch_.Add(&keeper, kPeer, 0).ok());
    Rest(kSecond);
    for (int i = 0; i < 5; ++i) {
      FakeCall decoy;
      ASSERT_TRUE(watch_.Add(&decoy, kPeer, 0).ok());
      Received("10.0.0.1:1") += 13 * kMiB;
      watch_.Remove(&decoy);
      Rush();
      EXPECT_EQ(closed_.empty(), is_message_whole || i < 4);
      Rest(kSecond / 2);
      if (is_message_whole && i == 2) keeper.CountMessage(35 * kMiB);
      Rush();
      Rest(kSecond / 2);
    }
    watch_.Remove(&keeper);
    Rest(kSecond);
  }
}

// One call after the other ends within a message, and there is one at each look.
TEST_F(MessagesTest, WhoHasOneCallAtATimeHidesNothing) {
  Received("10.0.0.1:1") = 2000;
  std::deque<FakeCall> calls(100);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (i > 0) watch_.Remove(&calls[i - 1]);
    ASSERT_TRUE(watch_.Add(&calls[i], kPeer, 0).ok());
    Rush();
    Rest(kSecond / 2);
    Received("10.0.0.1:1") += 10 * kMiB;
    Rush();
  }
  EXPECT_TRUE(closed_.empty());
  watch_.Remove(&calls.back());
}

// The server has the whole message of the call that stays, so all that came was others'.
TEST_F(MessagesTest, WhereNoCallReadsNothingIsHidden) {
  FakeCall read;
  ASSERT_TRUE(watch_.Add(&read, kPeer, 0).ok());
  read.SetReading(false);
  for (int i = 0; i < 100; ++i) {
    FakeCall call;
    Received("10.0.0.1:1") += 2000;
    ASSERT_TRUE(watch_.Add(&call, kPeer, 0).ok());
    Received("10.0.0.1:1") += 10 * kMiB;
    watch_.Remove(&call);
    Rush();
    Rest(kSecond / 2);
    Rush();
  }
  EXPECT_TRUE(closed_.empty());
  watch_.Remove(&read);
}

TEST_F(MessagesTest, WhoseCallsHaveAllEndedHidesNothing) {
  for (int i = 0; i < 100; ++i) {
    FakeCall call;
    FakeCall other;
    Received("10.0.0.1:1") += 2000;
    ASSERT_TRUE(watch_.Add(&call, kPeer, 0).ok());
    ASSERT_TRUE(watch_.Add(&other, kPeer, 0).ok());
    Received("10.0.0.1:1") += 10 * kMiB;
    other.SetReading(false);  // its message has come
    watch_.Remove(&call);
    Rest(kSecond / 2);
    Rush();
    watch_.Remove(&other);
  }
  EXPECT_TRUE(closed_.empty());
}

TEST(SlowCalls, AreBoundedInAllAndOfEachAddress) {
  SlowCalls calls({3, 2, {"proxy"}});
  std::vector<Hold> places;
  const auto take = [&](const std::string& address) {
    absl::StatusOr<Hold> place = calls.Take(address);
    absl::Status status = place.status();
    if (status.ok()) places.push_back(*std::move(place));
    return status;
  };
  EXPECT_TRUE(take("a").ok());
  EXPECT_TRUE(take("a").ok());
  const absl::Status of_address = take("a");
  EXPECT_EQ(of_address.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(of_address.message(),
            "the share of address a of messages that take long to arrive is 2, 2 are taken, and "
            "this takes 1: send large operands by MatmulStream or Upload, which hold no memory of "
            "gRPC's");
  EXPECT_EQ(RetryAfterMs(of_address), LeastRetryMs(WaitsFor::kClients));
  EXPECT_TRUE(take("b").ok());
  EXPECT_NE(take("b").message().find("is 3, 3 are taken"), std::string::npos);
  places.erase(places.begin());
  EXPECT_TRUE(take("b").ok());
  EXPECT_FALSE(take("a").ok());
  places.clear();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(take("proxy").ok());
  EXPECT_FALSE(take("proxy").ok());
}

TEST(Peer, HasAnAddressAndAnEndpoint) {
  EXPECT_EQ(AddressOf("ipv4:10.0.0.1:4711"), "10.0.0.1");
  EXPECT_EQ(AddressOf("ipv6:%5B2001:db8::1%5D:4711"), "2001:db8::/64");
  EXPECT_EQ(AddressOf("unix:/run/x"), "unix");
  EXPECT_EQ(AddressOf("unix-abstract:x"), "unix") << "by whatever name a client has";
  EXPECT_EQ(EndpointOf("ipv4:10.0.0.1:4711"), "10.0.0.1:4711");
  EXPECT_EQ(EndpointOf("ipv6:%5B2001:db8::1%5D:4711"), "[2001:db8::1]:4711");
  EXPECT_EQ(EndpointOf("ipv6:%5Bfe80::1%25eth0%5D:4711"), "[fe80::1]:4711");
  EXPECT_EQ(EndpointOf("unix:"), "unix");
}

// A watch of calls that have memory which others wait for, with the limits that are the defaults.
class RecallTest : public MessagesTest {
 protected:
  CallWatch::Options Options() {
    CallWatch::Options options;
    options.memory_is_wanted = [this] { return is_wanted_; };
    options.proxies = {"10.0.0.9"};
    return options;
  }
  void Look(TimeNs time) {
    for (const TimeNs end = clock_.Now() + time; clock_.Now() < end;) {
      clock_.Advance(kSecond / 10);
      watch_.Look();
    }
  }
  void Add(FakeCall* call, const std::string& endpoint, std::uint64_t idle_bytes) {
    traffic_[endpoint].received = 2000;
    call->idle_bytes = idle_bytes;
    call->since = clock_.Now();
    EXPECT_TRUE(watch_.Add(call, "ipv4:" + endpoint, 0).ok());
  }

  bool is_wanted_ = true;
  CallWatch watch_{
      Options(), &clock_, std::chrono::milliseconds(0),
      [](const std::string& /*peer*/, absl::string_view /*why*/, ConnectionTable::Reopening) {},
      [this] { return traffic_; }};
};

TEST_F(RecallTest, MemoryThatWaitsForItsClientGoesBackWhenItIsWanted) {
  FakeCall call;
  Add(&call, "10.0.0.1:1", kMiB);
  is_wanted_ = false;
  Look(20 * kSecond);
  EXPECT_EQ(call.recalled, 0);
  is_wanted_ = true;
  call.since = clock_.Now();
  Look(2 * kSecond);
  EXPECT_EQ(call.recalled, 0) << "it has only begun to wait";
  Look(2 * kSecond);
  EXPECT_EQ(call.recalled, 1);
  watch_.Remove(&call);
}

TEST_F(RecallTest, TheAddressThatHasMostGivesFirstAndEachLookTakesOne) {
  std::deque<FakeCall> calls(5);
  Add(&calls[0], "10.0.0.1:1", 5 * kMiB);  // the largest, alone at its address
  Add(&calls[1], "10.0.0.2:1", 4 * kMiB);
  Add(&calls[2], "10.0.0.2:2", 3 * kMiB);
  Add(&calls[3], "10.0.0.9:1", 3 * kMiB);  // behind a proxy, whose clients count each for itself
  Add(&calls[4], "10.0.0.9:2", 3 * kMiB);
  clock_.Advance(4 * kSecond);
  const auto recalled = [&calls] {
    int sum = 0;
    for (const FakeCall& call : calls) sum += call.recalled;
    return sum;
  };
  watch_.Look();
  EXPECT_EQ(calls[1].recalled, 1);
  EXPECT_EQ(recalled(), 1);
  watch_.Look();
  EXPECT_EQ(calls[0].recalled, 1);
  EXPECT_EQ(recalled(), 2);
  for (int i = 3; i <= 6; ++i) {
    watch_.Look();
    EXPECT_EQ(recalled(), std::min(i, 5));
  }
  for (FakeCall& call : calls) watch_.Remove(&call);
}

// Bytes that a minute moves are on their way: 64 MiB at 2 MiB a second are, at 1 KiB a second not.
TEST_F(RecallTest, WhoseBytesMoveIsSpared) {
  for (const bool is_fast : {true, false}) {
    FakeCall call;
    Add(&call, "10.0.0.1:1", 64 * kMiB);
    for (int i = 0; i < 100; ++i) {
      traffic_["10.0.0.1:1"].sent += is_fast ? kMiB / 5 : 100;
      Look(kSecond / 10);
    }
    EXPECT_EQ(call.recalled, is_fast ? 0 : 1);
    watch_.Remove(&call);
  }
}

// By default an answer of 61 MiB may take an hour, as long as its connection moves.
TEST_F(RecallTest, ALateCallIsToldWhetherItsConnectionMoves) {
  FakeCall call;
  FakeCall local;
  Add(&call, "10.0.0.1:1", 0);
  EXPECT_TRUE(watch_.Add(&local, "unix:", 0).ok());
  const ProgressLimit limit;
  for (const std::uint64_t bytes_a_second : {100'000, 20'000, 10'000, 0}) {
    for (int i = 0; i < 30; ++i) {
      traffic_["10.0.0.1:1"].sent += bytes_a_second / 10;
      Look(kSecond / 10);
    }
    EXPECT_EQ(call.IsMoving(), bytes_a_second >= limit.bytes_per_second) << bytes_a_second;
  }
  EXPECT_TRUE(local.IsMoving()) << "nobody counts its bytes";
  watch_.Remove(&call);
  watch_.Remove(&local);
}

}  // namespace
}  // namespace gemmd
