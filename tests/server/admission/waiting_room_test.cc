#include "server/admission/waiting_room.h"

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/time/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/tenants/retry_after.h"
#include "tests/testing/fake_clock.h"

namespace gemmd {
namespace {

using ::testing::ElementsAre;
using testing::FakeClock;
using ::testing::HasSubstr;
using Attempt = WaitingRoom::Attempt;

constexpr std::chrono::milliseconds kOnlyWhenTold(0);

class WaitingRoomTest : public ::testing::Test {
 protected:
  WaitingRoomTest() {
    bounds_.requests = 6;
    bounds_.bytes = 1000;
    bounds_.client_percent = 50;
    bounds_.longest = 100 * kMillisecond;
    room_ = std::make_unique<WaitingRoom>(bounds_, &clock_, kOnlyWhenTold);
  }

  // It takes one of `room_for_` when it is let in.
  absl::Status Add(std::uint64_t id, const std::string& tenant, std::uint64_t bytes = 0,
                   TimeNs deadline = kNoDeadline) {
    return AddOf({tenant, "address of " + tenant}, id, bytes, deadline);
  }
  absl::Status AddOf(const MemoryHolder& holder, std::uint64_t id, std::uint64_t bytes = 0,
                     TimeNs deadline = kNoDeadline) {
    WaitingRoom::Request request;
    request.id = id;
    request.holder = holder;
    request.bytes = bytes;
    request.deadline = deadline;
    request.held = [] { return 0; };
    request.attempt = [this, id] {
      ++attempts_;
      if (on_attempt_) on_attempt_(id);
      if (room_for_ == 0) return Attempt::kNoRoom;
      --room_for_;
      let_in_.push_back(id);
      return Attempt::kTold;
    };
    request.end = [this, id](absl::Status status) { ends_[id] = std::move(status); };
    return room_->Add(std::move(request));
  }

  FakeClock clock_;
  WaitingRoom::Bounds bounds_;
  int room_for_ = 0;
  int attempts_ = 0;
  std::function<void(std::uint64_t)> on_attempt_;
  std::vector<std::uint64_t> let_in_;
  std::map<std::uint64_t, absl::Status> ends_;
  // The last member, because its destructor ends what still waits, into the members above.
  std::unique_ptr<WaitingRoom> room_;
};

TEST_F(WaitingRoomTest, TenantsTakeTurnsAndEachKeepsItsOrder) {
  bounds_.client_percent = 100;
  room_ = std::make_unique<WaitingRoom>(bounds_, &clock_, kOnlyWhenTold);
  for (const std::uint64_t id : {1, 2, 3}) ASSERT_TRUE(AddOf({"hog", "here"}, id).ok());
  for (const std::uint64_t id : {11, 12}) ASSERT_TRUE(AddOf({"polite", "here"}, id).ok());
  EXPECT_TRUE(room_->HasWaiting("hog"));
  EXPECT_FALSE(room_->HasWaiting("nobody"));
  room_->Look();
  EXPECT_TRUE(let_in_.empty());
  room_for_ = 5;
  room_->Look();
  // Each has a turn for its name and one for its address.
  EXPECT_THAT(let_in_, ElementsAre(1, 2, 11, 12, 3));
  EXPECT_EQ(room_->waiting(), 0U);
  EXPECT_FALSE(room_->HasWaiting("hog"));
}

// A client with many names, or with many addresses, leaves another one about a quarter of what
// there is at least, however much becomes free at a time.
TEST_F(WaitingRoomTest, NeitherManyNamesNorManyAddressesTakeAllTurns) {
  constexpr int kEach = 40;
  for (const bool has_many_names : {true, false}) {
    for (int at_a_time = 1; at_a_time <= 7; ++at_a_time) {
      bounds_.requests = 2 * kEach;
      room_ = std::make_unique<WaitingRoom>(bounds_, &clock_, kOnlyWhenTold);
      let_in_.clear();
      for (std::uint64_t i = 0; i < kEach; ++i) {
        const std::string number = std::to_string(i);
        const MemoryHolder hog = has_many_names ? MemoryHolder{"hog " + number, "hog's"}
                                                : MemoryHolder{"hog", "hog's " + number};
        ASSERT_TRUE(AddOf(hog, i).ok());
        ASSERT_TRUE(Add(100 + i, "polite").ok());
      }
      while (let_in_.size() < kEach) {
        room_for_ = at_a_time;
        room_->Look();
      }
      const auto polite =
          std::count_if(let_in_.begin(), let_in_.end(), [](std::uint64_t id) { return id >= 100; });
      EXPECT_GE(polite, kEach / 5) << at_a_time;
      EXPECT_LE(polite, 4 * kEach / 5) << at_a_time;
    }
  }
}

// Requests of a tenant at an address come to their turn, whatever others its tenant and its address
// have.
TEST_F(WaitingRoomTest, NobodyIsLeftOutForGood) {
  bounds_.requests = 100;
  bounds_.client_percent = 100;
  room_ = std::make_unique<WaitingRoom>(bounds_, &clock_, kOnlyWhenTold);
  ASSERT_TRUE(AddOf({"both", "here"}, 1000).ok());
  std::uint64_t id = 0;
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(AddOf({"both", "there"}, id++).ok());
    ASSERT_TRUE(AddOf({"another", "here"}, id++).ok());
  }
  for (int i = 0; i < 12 && std::count(let_in_.begin(), let_in_.end(), 1000) == 0; ++i) {
    ASSERT_TRUE(AddOf({"both", "there"}, id++).ok());
    ASSERT_TRUE(AddOf({"another", "here"}, id++).ok());
    room_for_ = 1;
    room_->Look();
  }
  EXPECT_EQ(std::count(let_in_.begin(), let_in_.end(), 1000), 1);
}

TEST_F(WaitingRoomTest, OneThatFindsNoRoomHoldsBackNobodyElse) {
  ASSERT_TRUE(Add(1, "large").ok());
  ASSERT_TRUE(Add(2, "large").ok());
  ASSERT_TRUE(Add(3, "small").ok());
  std::vector<std::uint64_t> tried;
  on_attempt_ = [&](std::uint64_t id) {
    tried.push_back(id);
    room_for_ = id == 1 ? 0 : 1;
  };
  room_->Look();
  EXPECT_THAT(let_in_, ElementsAre(3));
  EXPECT_EQ(std::count(tried.begin(), tried.end(), 2), 0);
}

TEST_F(WaitingRoomTest, ItIsBounded) {
  ASSERT_TRUE(Add(1, "a", 400).ok());
  EXPECT_THAT(
      std::string(Add(2, "a", 200).message()),
      HasSubstr("of tenant \"a\" 1 requests with messages of 400 bytes wait for memory, and "
                "this one has 200; the limits are 3 and 500"));
  ASSERT_TRUE(Add(2, "a", 100).ok());
  ASSERT_TRUE(Add(3, "a").ok());
  EXPECT_FALSE(Add(4, "a").ok());
  ASSERT_TRUE(Add(5, "b", 500).ok());
  ASSERT_TRUE(Add(6, "b").ok());
  const absl::Status full = Add(7, "c", 1);
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(RetryAfterMs(full).has_value());
  ASSERT_TRUE(Add(7, "c").ok());
  EXPECT_FALSE(Add(8, "d").ok());
  EXPECT_EQ(attempts_, 0);
  room_for_ = 100;
  room_->Look();
  EXPECT_TRUE(Add(9, "a", 500).ok()) << "bytes of those that left still count";
}

TEST_F(WaitingRoomTest, AnAddressHasOneShareWhateverItsNames) {
  ASSERT_TRUE(AddOf({"a", "here"}, 1, 400).ok());
  EXPECT_THAT(std::string(AddOf({"b", "here"}, 2, 200).message()),
              HasSubstr("of address \"here\" 1 requests with messages of 400 bytes wait for "
                        "memory, and this one has 200; the limits are 3 and 500"));
  EXPECT_TRUE(AddOf({"b", "there"}, 2, 200).ok());
  ASSERT_TRUE(AddOf({"b", "here"}, 3).ok());
  ASSERT_TRUE(AddOf({"c", "here"}, 4).ok());
  EXPECT_FALSE(AddOf({"d", "here"}, 5).ok());
}

TEST_F(WaitingRoomTest, WhoWaitsTooLongIsTold) {
  ASSERT_TRUE(Add(1, "a", 0, clock_.Now() + 10 * kMillisecond).ok());
  ASSERT_TRUE(Add(2, "a").ok());
  clock_.Advance(10 * kMillisecond);
  room_for_ = 1;
  room_->Look();
  EXPECT_EQ(ends_[1].code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(let_in_, ElementsAre(2));
  ASSERT_TRUE(Add(3, "a").ok());
  clock_.Advance(99 * kMillisecond);
  room_->Look();
  EXPECT_EQ(ends_.count(3), 0U);
  clock_.Advance(1 * kMillisecond);
  room_->Look();
  EXPECT_EQ(ends_[3].code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(RetryAfterMs(ends_[3]).has_value());
  EXPECT_EQ(room_->waiting(), 0U);
}

TEST_F(WaitingRoomTest, ACancelledOneLeaves) {
  ASSERT_TRUE(Add(1, "a").ok());
  ASSERT_TRUE(Add(2, "a").ok());
  room_->Cancel(1);
  room_->Cancel(7);
  EXPECT_EQ(ends_[1].code(), absl::StatusCode::kCancelled);
  on_attempt_ = [this](std::uint64_t id) { room_->Cancel(id); };
  room_->Look();
  EXPECT_EQ(ends_[2].code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(room_->waiting(), 0U);

  ASSERT_TRUE(Add(3, "a").ok());
  room_for_ = 1;
  room_->Look();
  EXPECT_THAT(let_in_, ElementsAre(3)) << "cancelled, but let in before";
  EXPECT_EQ(ends_.count(3), 0U);
}

TEST_F(WaitingRoomTest, ItsEndTellsThoseWhoWait) {
  ASSERT_TRUE(Add(1, "a").ok());
  ASSERT_TRUE(Add(2, "b").ok());
  room_.reset();
  EXPECT_EQ(ends_[1].code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(ends_[2].code(), absl::StatusCode::kCancelled);
}

// Memory for which clients with a share of 60 of 100 bytes ask.
class KeptMemoryTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kAll = 100;
  static constexpr std::uint64_t kShare = 60;

  Attempt Take(const std::string& who, std::uint64_t bytes) {
    if (held_[who] + bytes > kShare) return Attempt::kNoShare;
    if (all_ + bytes > kAll) return Attempt::kNoRoom;
    held_[who] += bytes;
    all_ += bytes;
    return Attempt::kTold;
  }
  void GiveBack(const std::string& who, std::uint64_t bytes) {
    held_[who] -= bytes;
    all_ -= bytes;
    room_.Look();
  }
  void Ask(const std::string& who, std::uint64_t bytes) {
    WaitingRoom::Request request;
    request.id = ++last_id_;
    request.holder = {who, "address of " + who};
    request.needed_bytes = bytes;
    request.held = [this, who] { return held_[who]; };
    request.attempt = [this, who, bytes] {
      const Attempt attempt = Take(who, bytes);
      if (attempt == Attempt::kTold) let_in_.push_back({who, bytes});
      return attempt;
    };
    // By the room's own end.
    request.end = [](const absl::Status& status) { EXPECT_TRUE(absl::IsCancelled(status)); };
    ASSERT_TRUE(room_.Add(std::move(request)).ok());
  }
  bool IsKeptFrom(const std::string& who) {
    return room_.IsKeptFrom([&] { return held_[who]; });
  }

  FakeClock clock_;
  std::map<std::string, std::uint64_t> held_;
  std::uint64_t all_ = 0;
  std::uint64_t last_id_ = 0;
  std::vector<std::pair<std::string, std::uint64_t>> let_in_;
  WaitingRoom room_{WaitingRoom::Bounds(), &clock_, kOnlyWhenTold};
};

TEST_F(KeptMemoryTest, ItIsForWhoHoldsLeast) {
  for (const char* hog : {"hog", "pig"}) ASSERT_EQ(Take(hog, 50), Attempt::kTold);
  Ask("polite", 20);
  Ask("hog", 10);
  Ask("pig", 5);
  EXPECT_FALSE(IsKeptFrom("hog")) << "before the first look";
  room_.Look();
  EXPECT_TRUE(IsKeptFrom("hog"));
  EXPECT_FALSE(IsKeptFrom("polite"));
  GiveBack("hog", 10);
  EXPECT_THAT(let_in_, ElementsAre()) << "each of the others would fit, and polite never would";
  GiveBack("pig", 10);
  EXPECT_THAT(let_in_, ElementsAre(std::pair("polite", 20)));
  EXPECT_FALSE(IsKeptFrom("pig"));
  GiveBack("polite", 20);
  EXPECT_EQ(let_in_.size(), 3U);
}

// A request that would make its client the largest keeps nobody out.
TEST_F(KeptMemoryTest, ItIsNotForWhoWouldHoldMost) {
  ASSERT_EQ(Take("other", 50), Attempt::kTold);
  Ask("large", 60);
  room_.Look();
  EXPECT_FALSE(IsKeptFrom("other"));
  Ask("other", 10);
  room_.Look();
  EXPECT_THAT(let_in_, ElementsAre(std::pair("other", 10)));
}

// A client that has its share waits for what it gave itself.
TEST_F(KeptMemoryTest, ItIsNotForWhoHasItsShare) {
  ASSERT_EQ(Take("small", 41), Attempt::kTold);
  ASSERT_EQ(Take("large", 50), Attempt::kTold);
  Ask("small", 20);
  room_.Look();
  EXPECT_FALSE(IsKeptFrom("large"));
}

TEST_F(KeptMemoryTest, ItIsForNobodyOnceTheRequestIsCancelled) {
  for (const char* hog : {"hog", "pig"}) ASSERT_EQ(Take(hog, 50), Attempt::kTold);
  WaitingRoom::Request request;
  request.id = 7;
  request.holder = {"polite", "address"};
  request.needed_bytes = 20;
  request.held = [] { return 0; };
  request.attempt = [] { return Attempt::kNoRoom; };
  request.end = [](const absl::Status& status) { EXPECT_TRUE(absl::IsCancelled(status)); };
  ASSERT_TRUE(room_.Add(std::move(request)).ok());
  room_.Look();
  EXPECT_TRUE(IsKeptFrom("hog"));
  room_.Cancel(7);
  EXPECT_FALSE(IsKeptFrom("hog"));
}

// Whatever clients asked for before: each request that can ever fit gets in, though others ask for
// memory as fast as they may.
TEST_F(KeptMemoryTest, NobodyIsLeftOutInAnyHistory) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const std::vector<std::string> names = {"a", "b", "c", "d"};
    std::map<std::string, int> waiting;
    std::size_t seen = let_in_.size();
    std::vector<std::pair<std::string, std::uint64_t>> running;
    const auto note = [&] {
      for (; seen < let_in_.size(); ++seen) {
        running.push_back(let_in_[seen]);
        --waiting[let_in_[seen].first];
      }
    };
    int idle_looks = 0;
    for (int i = 0; i < 300 || std::any_of(waiting.begin(), waiting.end(),
                                           [](const auto& each) { return each.second != 0; });
         ++i) {
      const std::string& who = names[random() % names.size()];
      if (i < 300 && waiting[who] < 3) {
        Ask(who, 1 + random() % (random() % 4 == 0 ? kShare : 10));
        ++waiting[who];
      }
      const std::size_t before = let_in_.size();
      room_.Look();
      note();
      if (!running.empty() && random() % 2 == 0) {
        const std::size_t at = random() % running.size();
        std::swap(running[at], running.back());
        const auto [ends, bytes] = running.back();
        running.pop_back();
        GiveBack(ends, bytes);
        note();
      }
      idle_looks = let_in_.size() == before && running.empty() ? idle_looks + 1 : 0;
      ASSERT_LT(idle_looks, 3) << "seed " << seed << ": memory is free, and nobody gets in";
    }
    while (!running.empty()) {
      const auto [ends, bytes] = running.back();
      running.pop_back();
      GiveBack(ends, bytes);
      note();
    }
    ASSERT_EQ(all_, 0U);
    ASSERT_EQ(room_.waiting(), 0U);
  }
}

// Names are free: a flood of them must not make each look a long one, nor keep anybody out for
// good.
TEST(WaitingRoom, AFloodOfTenantsIsLookedThroughBitByBit) {
  FakeClock clock;
  WaitingRoom::Bounds bounds;
  WaitingRoom room(bounds, &clock, kOnlyWhenTold);
  int attempts = 0;
  bool is_in = false;
  const auto add = [&](std::uint64_t id, bool fits) {
    WaitingRoom::Request request;
    request.id = id;
    request.holder = {std::to_string(id), "here"};
    request.held = [] { return 0; };
    request.attempt = [&, fits] {
      ++attempts;
      is_in = is_in || fits;
      return fits ? Attempt::kTold : Attempt::kNoRoom;
    };
    request.end = [](const absl::Status&) {};
    ASSERT_TRUE(room.Add(std::move(request)).ok());
  };
  for (std::uint64_t id = 0; id < 200; ++id) add(id, false);
  add(200, true);
  int looks = 0;
  while (!is_in) {
    attempts = 0;
    room.Look();
    EXPECT_LE(attempts, 33);
    ASSERT_LE(++looks, 20);
  }
}

// Threads that add, cancel and poke while the room's own thread looks: each request has one end.
TEST(WaitingRoom, EachRequestHasExactlyOneEnd) {
  FakeClock clock;
  WaitingRoom::Bounds bounds;
  bounds.requests = 100;
  constexpr int kThreads = 3;
  constexpr int kEach = 2000;
  std::vector<std::atomic<int>> ends(kThreads * kEach);
  {
    WaitingRoom room(bounds, &clock, std::chrono::milliseconds(1));
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        std::mt19937 random(static_cast<unsigned>(thread));
        for (int i = 0; i < kEach; ++i) {
          const auto id = static_cast<std::uint64_t>(thread * kEach + i);
          WaitingRoom::Request request;
          request.id = id;
          request.holder = {std::to_string(random() % 5), std::to_string(random() % 3)};
          request.held = [held = random() % 4] { return held; };
          request.needed_bytes = random() % 4;
          const Attempt random_outcome = random() % 2 == 0 ? Attempt::kNoRoom : Attempt::kNoShare;
          request.attempt = [&ends, id, random_outcome, left = random() % 3]() mutable {
            if (left-- != 0) return random_outcome;
            ++ends[id];
            return Attempt::kTold;
          };
          request.end = [&ends, id](const absl::Status&) { ++ends[id]; };
          if (!room.Add(std::move(request)).ok()) ++ends[id];
          if (random() % 2 == 0) room.Cancel(id - random() % 20);
          if (random() % 2 == 0) room.Poke();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  for (const std::atomic<int>& count : ends) ASSERT_EQ(count, 1);
}

}  // namespace
}  // namespace gemmd
