#include "server/rpc/calls/live_call_limit.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/time/units.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "server/rpc/calls/live_calls.h"
#include "server/rpc/calls/peer.h"
#include "tests/testing/fake_clock.h"

namespace gemmd {
namespace {

using Connections = std::vector<LiveCalls::OfConnection>;

// Calls as a test says, counted in `takes`.
class SaidCalls final : public LiveCalls {
 public:
  explicit SaidCalls(testing::FakeClock* clock) : clock_(clock) {}

  std::uint64_t Count() override {
    std::uint64_t all = 0;
    for (const OfConnection& each : connections) all += each.calls;
    return all;
  }
  Connections ByConnection() override {
    ++counts;
    clock_->Advance(takes);
    return connections;
  }

  Connections connections;
  TimeNs takes = 0;
  int counts = 0;

 private:
  testing::FakeClock* const clock_;
};

LiveCalls::OfConnection Of(std::int64_t id, std::uint64_t calls, std::uint64_t answered = 0) {
  return {id, std::to_string(id), calls, answered, answered != 0};
}

using Reopening = ConnectionTable::Reopening;

// Connections have addresses of their own, two calls in progress, and ten reset ones.
class LiveCallLimitTest : public ::testing::Test {
 protected:
  // The connections that a look closes, in order, but for those whose calls answers paid for, which
  // are in paid_.
  std::vector<std::string> Closed(const Connections& connections) {
    calls_->connections = connections;
    closed_.clear();
    paid_.clear();
    limit_.Look();
    std::sort(closed_.begin(), closed_.end());
    std::sort(paid_.begin(), paid_.end());
    return std::exchange(closed_, {});
  }

  // Looks, and returns the connections that a later look closes, once all answers are long ago.
  std::vector<std::string> ClosedLater(const Connections& connections) {
    Closed(connections);
    clock_.Advance(20 * RecentAnswers::kWindow);
    return Closed(connections);
  }

  using Names = std::vector<std::string>;
  testing::FakeClock clock_;
  SaidCalls* const calls_ = new SaidCalls(&clock_);
  std::vector<std::string> closed_;
  std::vector<std::string> paid_;
  LiveCallLimit limit_{
      {100, 2, 10, {"10.0.0.9"}},
      std::unique_ptr<LiveCalls>(calls_),
      &clock_,
      std::chrono::milliseconds(0),
      [this](const std::string& peer, absl::string_view /*why*/, Reopening reopening) {
        (reopening == Reopening::kAtOnce ? paid_ : closed_).push_back(peer);
      }};
};

TEST_F(LiveCallLimitTest, ClosesTheConnectionThatHasTooManyResetCalls) {
  EXPECT_EQ(Closed({Of(1, 12), Of(2, 12)}), Names());
  EXPECT_EQ(Closed({Of(1, 12), Of(2, 13)}), Names{"2"});
}

TEST_F(LiveCallLimitTest, CountsAllConnectionsOfAnAddress) {
  // One was answered once, long ago.
  const auto at = [](std::int64_t id, const std::string& peer, std::uint64_t calls) {
    return LiveCalls::OfConnection{id, peer, calls, 1, true};
  };
  EXPECT_EQ(ClosedLater({at(1, "ipv4:10.0.0.1:1", 7), at(2, "ipv4:10.0.0.1:2", 7)}), Names());
  EXPECT_EQ(ClosedLater({at(1, "ipv4:10.0.0.1:1", 7), at(2, "ipv4:10.0.0.1:2", 5),
                         at(3, "ipv4:10.0.0.1:3", 5), at(4, "ipv4:10.0.0.2:4", 12)}),
            Names{"ipv4:10.0.0.1:1"})
      << "who has most, until the others have no more than they may";
  EXPECT_EQ(ClosedLater({at(1, "ipv4:10.0.0.1:1", 40), at(2, "ipv4:10.0.0.1:2", 22),
                         at(3, "ipv4:10.0.0.1:3", 20)}),
            (Names{"ipv4:10.0.0.1:1", "ipv4:10.0.0.1:2"}))
      << "not the third yet, which may only wait for the others";
  EXPECT_EQ(Closed({at(3, "ipv4:10.0.0.1:3", 20)}), Names{"ipv4:10.0.0.1:3"});
  EXPECT_EQ(ClosedLater({at(1, "ipv4:10.0.0.1:1", 2), at(2, "ipv4:10.0.0.1:2", 2),
                         at(3, "ipv4:10.0.0.1:3", 2), at(4, "ipv4:10.0.0.1:4", 2),
                         at(5, "ipv4:10.0.0.1:5", 2), at(6, "ipv4:10.0.0.1:6", 2)}),
            Names())
      << "what is in progress was not reset";
  EXPECT_EQ(ClosedLater({at(1, "ipv4:10.0.0.9:1", 12), at(2, "ipv4:10.0.0.9:2", 12),
                         at(3, "ipv4:10.0.0.9:3", 13)}),
            Names{"ipv4:10.0.0.9:3"})
      << "a proxy's connections are many clients'";
}

TEST_F(LiveCallLimitTest, ClosesAllThatWereNeverAnsweredOfAnAddressThatHasTooMany) {
  // The third has a stream that lasts, and answers on it.
  const auto at = [](std::int64_t id, std::uint64_t calls, bool is_served) {
    return LiveCalls::OfConnection{id, absl::StrCat("ipv4:10.0.0.1:", id), calls, 0, is_served};
  };
  EXPECT_EQ(Closed({at(1, 12, false), at(2, 0, false), at(3, 1, true)}), Names());
  EXPECT_EQ(Closed({at(1, 14, false), at(2, 0, false), at(3, 1, true)}),
            (Names{"ipv4:10.0.0.1:1", "ipv4:10.0.0.1:2"}));
}

TEST_F(LiveCallLimitTest, ClosesMoreWhereThereAreTooManyInAll) {
  Connections many = {Of(0, 2)};
  Names all_others;
  for (int id = 1; id <= 14; ++id) {
    all_others.push_back(std::to_string(id));
    many.push_back(Of(id, 7, 1000));
  }
  std::sort(all_others.begin(), all_others.end());
  EXPECT_EQ(Closed(many), Names()) << "100 in all";
  many.front().calls = 3;
  all_others.insert(all_others.begin(), "0");
  EXPECT_EQ(Closed(many), all_others) << "answered or not";
  many.front().calls = 2;
  many.push_back(Of(15, 1));
  all_others.erase(all_others.begin());
  EXPECT_EQ(Closed(many), all_others) << "who has few keeps them";
}

TEST_F(LiveCallLimitTest, ALowerLimitClosesNothingUntilMoreCallsCome) {
  const auto with = [](std::uint64_t calls) {
    Connections connections;
    for (int id = 1; id <= 9; ++id) connections.push_back(Of(id, 10));
    connections.push_back(Of(10, calls));
    return connections;
  };
  EXPECT_EQ(Closed(with(9)), Names()) << "99 in all";
  limit_.SetAll(50);
  EXPECT_EQ(Closed(with(9)), Names());
  EXPECT_EQ(Closed(with(6)), Names());
  EXPECT_EQ(Closed(with(7)).size(), 10U) << "96 were left";
  limit_.SetAll(97);
  EXPECT_EQ(Closed(with(7)), Names());
}

// They come within the limit of their time.
TEST_F(LiveCallLimitTest, WhileTheLimitChangesCallsThatWereTakenCloseNothing) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    std::size_t all = 100;
    limit_.SetAll(all);
    Connections connections;
    for (int id = 0; id < 20; ++id) connections.push_back(Of(id, 0));
    ASSERT_EQ(Closed(connections), Names());
    for (int step = 0; step < 500; ++step) {
      if (random() % 8 == 0) limit_.SetAll(all = random() % 200);
      std::uint64_t& calls = connections[random() % connections.size()].calls;
      calls_->connections = connections;
      const bool has_room = calls_->Count() < all;
      if (random() % 3 == 0) {
        calls -= std::min<std::uint64_t>(calls, 1);
      } else if (has_room && calls < 12) {
        ++calls;
      }
      ASSERT_EQ(Closed(connections), Names()) << seed << ", " << step;
    }
  }
}

TEST_F(LiveCallLimitTest, LeavesAsManyMoreAsWereAnsweredInAWindow) {
  EXPECT_EQ(Closed({Of(1, 42, 30), Of(2, 43, 30)}), Names{"2"}) << "all, at the first look";
  clock_.Advance(kMillisecond);
  EXPECT_EQ(Closed({Of(1, 90, 32)}), Names()) << "at 2 a millisecond, 500 in a window";
  clock_.Advance(RecentAnswers::kWindow / 2);
  EXPECT_EQ(Closed({Of(1, 90, 32)}), Names()) << "250 by the mean";
  clock_.Advance(RecentAnswers::kWindow);
  EXPECT_EQ(Closed({Of(1, 13, 32)}), Names()) << "none for a window,";
  EXPECT_EQ(paid_, Names{"1"}) << "and those before pay for it";
  EXPECT_EQ(Closed({Of(3, 13, 0)}), Names{"3"}) << "none of another's";
}

// They are an address's, which then connects anew.
TEST_F(LiveCallLimitTest, AnswersPayForTheCallsOfWhatIsClosed) {
  const auto at = [](std::int64_t id, std::uint64_t calls, std::uint64_t answered) {
    return LiveCalls::OfConnection{id, absl::StrCat("ipv4:10.0.0.1:", id), calls, answered,
                                   answered != 0};
  };
  EXPECT_EQ(Closed({at(1, 5, 50), at(2, 7, 40)}), Names());
  clock_.Advance(1000 * kMillisecond);  // 45 are left
  EXPECT_EQ(Closed({at(1, 20, 50), at(2, 8, 40)}), Names());
  EXPECT_EQ(paid_, Names{"ipv4:10.0.0.1:1"}) << "it has most: 18; the other 6";
  EXPECT_EQ(Closed({at(1, 20, 50), at(2, 8, 40), at(3, 6, 0)}), Names());
  EXPECT_EQ(paid_, Names()) << "18 do not count any more, though gRPC keeps them for now";
  EXPECT_EQ(Closed({at(1, 20, 50), at(2, 8, 40), at(3, 24, 0)}), Names());
  EXPECT_EQ(paid_, Names{"ipv4:10.0.0.1:3"}) << "of 27, 22 were enough";
  EXPECT_EQ(Closed({at(1, 20, 50), at(2, 8, 40), at(3, 24, 0), at(4, 9, 0)}),
            Names{"ipv4:10.0.0.1:4"})
      << "5 are not, for 7";
  EXPECT_EQ(paid_, Names());
}

// One that it just opened, and that was not answered yet, is no sign of an abuser there.
TEST_F(LiveCallLimitTest, LeavesNewConnectionsOfAnAddressThatWasServed) {
  const auto at = [](std::int64_t id, std::uint64_t calls, std::uint64_t answered) {
    return LiveCalls::OfConnection{id, absl::StrCat("ipv4:10.0.0.1:", id), calls, answered,
                                   answered != 0};
  };
  EXPECT_EQ(Closed({at(1, 12, 50)}), Names());
  clock_.Advance(1000 * kMillisecond);  // 25 are left
  EXPECT_EQ(Closed({at(1, 20, 50), at(2, 1, 0)}), Names());
  EXPECT_EQ(paid_, Names{"ipv4:10.0.0.1:1"});
}

TEST_F(LiveCallLimitTest, RemembersAConnectionBetweenItsCalls) {
  Closed({Of(1, 0, 30), Of(2, 20)});
  clock_.Advance(20 * RecentAnswers::kWindow);
  EXPECT_EQ(Closed({Of(1, 13, 30)}), Names{"1"}) << "what was answered counts once";
}

TEST_F(LiveCallLimitTest, CountsByConnectionOnlyWhereOneMayHaveTooMany) {
  Closed({Of(1, 10)});
  EXPECT_EQ(calls_->counts, 0);
  calls_->takes = 3;
  Closed({Of(1, 11)});
  EXPECT_EQ(calls_->counts, 1);
}

TEST_F(LiveCallLimitTest, CountsByConnectionForATenthOfTheTime) {
  calls_->takes = 5;
  Closed({Of(1, 6), Of(2, 6)});
  clock_.Advance(49);
  Closed({Of(1, 6), Of(2, 6)});
  EXPECT_EQ(calls_->counts, 1);
  clock_.Advance(1);
  Closed({Of(1, 6), Of(2, 6)});
  EXPECT_EQ(calls_->counts, 2);
}

// An address has no more than it may in the connections that a look leaves open, but for those that
// have far less than what was closed; and a look closes none of an address that has no more.
TEST_F(LiveCallLimitTest, LeavesNoAddressMoreThanItMayAfterAnyHistory) {
  std::mt19937 random(5);
  Connections connections;
  std::int64_t next_id = 1;
  std::map<std::int64_t, RecentAnswers> answers;
  std::set<std::string> answered;  // addresses
  const auto reset = [](const LiveCalls::OfConnection& each) {
    return std::max<std::int64_t>(0, static_cast<std::int64_t>(each.calls) - 2);
  };
  for (int step = 0; step < 5000; ++step) {
    clock_.Advance((1 + random() % 400) * kMillisecond);
    for (LiveCalls::OfConnection& each : connections) {
      each.calls = random() % 3 == 0 ? random() % 30 : each.calls / 2;
      each.answered += random() % 3 == 0 ? random() % 20 : 0;
      each.is_served = each.is_served || each.answered != 0 || random() % 50 == 0;
    }
    if (connections.size() < 6) {
      const std::string peer =
          absl::StrCat("ipv4:10.0.0.", 1 + random() % 3, ":", static_cast<int>(next_id));
      connections.push_back({next_id++, peer, random() % 20, random() % 5, random() % 2 == 0});
    }
    std::uint64_t all = 0;
    for (const LiveCalls::OfConnection& each : connections) all += each.calls;
    if (all <= 10 || all > 100) continue;
    std::map<std::string, std::int64_t> left;
    std::map<std::string, std::int64_t> may;
    std::map<std::string, std::int64_t> largest;
    for (const LiveCalls::OfConnection& each : connections) {
      answers[each.id].Counted(each.answered, clock_.Now());
      const std::string address = AddressOf(each.peer);
      may.try_emplace(address, 10);
      may[address] += static_cast<std::int64_t>(answers[each.id].number());
      left[address] += reset(each);
      largest[address] = std::max(largest[address], reset(each));
      if (each.answered != 0) answered.insert(address);
    }
    const std::map<std::string, std::int64_t> before = left;
    const auto is_over = [&](const std::string& peer) {
      return before.at(AddressOf(peer)) > may.at(AddressOf(peer));
    };
    Names closed = Closed(connections);
    closed.insert(closed.end(), paid_.begin(), paid_.end());
    for (const std::string& peer : closed) {
      EXPECT_TRUE(is_over(peer)) << step;
      const auto found = std::find_if(connections.begin(), connections.end(),
                                      [&](const auto& each) { return each.peer == peer; });
      ASSERT_NE(found, connections.end());
      left[AddressOf(peer)] -= reset(*found);
      connections.erase(found);
    }
    for (const LiveCalls::OfConnection& each : connections) {
      const std::string address = AddressOf(each.peer);
      EXPECT_TRUE(left.at(address) <= may.at(address) || reset(each) < largest.at(address) / 2)
          << step;
      EXPECT_TRUE(each.is_served || !is_over(each.peer) || answered.count(address) != 0) << step;
    }
    if (random() % 10 == 0 && !connections.empty()) connections.erase(connections.begin());
  }
}

// Looks come when they come, and answers as fast as the server is.
TEST(RecentAnswers, FollowTheRateAfterAnyHistory) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const auto pause = [&random] { return (1 + random() % 400) * kMillisecond; };
    testing::FakeClock clock;
    RecentAnswers answers;
    std::uint64_t all = 0;
    for (int step = static_cast<int>(random() % 50); step > 0; --step) {
      clock.Advance(random() % 10 == 0 ? pause() * 1000 : pause());
      all += random() % 100000;
      answers.Counted(all, clock.Now());
    }
    // Answers at one rate: within a part of what a window brings, but for pauses of more than one.
    const std::uint64_t per_millisecond = 1 + random() % 20;
    const std::uint64_t in_window = per_millisecond * RecentAnswers::kWindow / kMillisecond;
    const auto go_on = [&](TimeNs passed) {
      clock.Advance(passed);
      all += per_millisecond * passed / kMillisecond;
      answers.Counted(all, clock.Now());
    };
    for (int i = 0; i < 3000; ++i) go_on((1 + random() % 50) * kMillisecond);
    EXPECT_NEAR(answers.number(), in_window, 2 + 0.01 * static_cast<double>(in_window)) << seed;
    const TimeNs passed = pause();
    go_on(passed);
    EXPECT_LE(answers.number(),
              per_millisecond * std::max(passed, RecentAnswers::kWindow) / kMillisecond + 2 +
                  in_window / 100)
        << seed;
    // None any more: they are soon forgotten.
    const TimeNs end = clock.Now() + 8 * RecentAnswers::kWindow;
    while (clock.Now() < end) {
      clock.Advance(pause());
      answers.Counted(all, clock.Now());
    }
    EXPECT_LE(answers.number(), in_window / 100) << seed;
  }
}

// No more calls are paid for than were answered, and few a second at that.
TEST(AnswerCredit, PaysOnceAndForgetsAfterAnyHistory) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    testing::FakeClock clock;
    AnswerCredit credit;
    std::uint64_t answered = 0;
    std::uint64_t paid = 0;
    for (int step = 0; step < 1000; ++step) {
      clock.Advance(random() % 300 * kMillisecond);
      const std::uint64_t calls = random() % 20 == 0 ? random() % 20000 : random() % 100;
      if (random() % 2 == 0) {
        credit.Add(calls, clock.Now());
        answered += calls;
      } else if (credit.Pay(calls, clock.Now())) {
        paid += calls;
        EXPECT_LE(static_cast<double>(calls), AnswerCredit::kMost) << seed;
      }
      ASSERT_LE(paid, answered) << seed;
    }
    EXPECT_GT(paid, 0U) << seed;
    credit.Add(100, clock.Now());
    EXPECT_FALSE(credit.is_empty(clock.Now())) << seed;
    clock.Advance(14'000 * kMillisecond);
    EXPECT_TRUE(credit.is_empty(clock.Now())) << seed;
    EXPECT_FALSE(credit.Pay(1, clock.Now())) << seed;
  }
}

// Calls begin, end and have wrong headers; connections are closed while their calls live on.
TEST(NeverEndedCalls, HideNoCallsAfterAnyHistory) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    NeverEndedCalls never_ended;
    std::uint64_t wrong = 0;
    std::uint64_t countable = 0;  // alive, of connections that are open
    std::uint64_t others = 0;     // alive, of connections that are closed
    for (int step = 0; step < 200; ++step) {
      switch (random() % 6) {
        case 0:
          countable += random() % 1000;
          break;
        case 1:
          countable -= random() % (countable + 1);
          break;
        case 2:
          others -= random() % (others + 1);
          break;
        case 3:
          wrong += random() % 100;
          break;
        case 4:
          others += std::exchange(countable, 0);
          break;
        default:
          never_ended.Counted(wrong + countable + others, countable);
          EXPECT_EQ(never_ended.LiveOf(wrong + countable + others), countable) << seed;
      }
      never_ended.LiveOf(wrong + countable + others);
    }
    never_ended.LiveOf(wrong);  // all have ended
    EXPECT_GE(never_ended.LiveOf(wrong + 1000), 1000U) << seed;
    never_ended.Counted(wrong + 1000, 1000);
    EXPECT_EQ(never_ended.LiveOf(wrong + 1000), 1000U) << seed;
  }
}

// Every call waits until its client gives up or has no more to say, and answers messages.
class Patient final : public grpc::CallbackGenericService {
  class Call final : public grpc::ServerGenericBidiReactor {
   public:
    Call() { StartRead(&message_); }
    void OnReadDone(bool is_ok) override {
      if (is_ok) {
        StartWrite(&message_);
      } else {
        Finish(grpc::Status::OK);
      }
    }
    void OnWriteDone(bool /*is_ok*/) override { StartRead(&message_); }
    void OnDone() override { delete this; }

   private:
    ~Call() override = default;
    grpc::ByteBuffer message_;
  };

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    return new Call;
  }
};

struct ClientCall {
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream;

  // Waits until the last operation on it has happened.
  void Await() {
    void* tag = nullptr;
    bool is_ok = false;
    ASSERT_TRUE(queue.Next(&tag, &is_ok));
  }
  grpc::Status End() {
    grpc::Status status;
    stream->Finish(&status, nullptr);
    Await();
    queue.Shutdown();
    return status;
  }
};

TEST(ChannelzCalls, AreCountedByConnection) {
  Patient service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterCallbackGenericService(&service);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 1);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);
  ChannelzCalls calls;
  EXPECT_EQ(calls.Count(), 0U);

  grpc::ChannelArguments own;
  own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  std::vector<std::shared_ptr<grpc::Channel>> channels;  // connected to the end
  std::vector<std::unique_ptr<ClientCall>> clients;
  for (const int count : {1, 3}) {
    channels.push_back(grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(port),
                                                 grpc::InsecureChannelCredentials(), own));
    grpc::GenericStub stub(channels.back());
    for (int i = 0; i < count; ++i) {
      clients.push_back(std::make_unique<ClientCall>());
      ClientCall& call = *clients.back();
      call.stream = stub.PrepareCall(&call.context, "/some/Method", &call.queue);
      call.stream->StartCall(nullptr);
      call.Await();
    }
  }
  // A call is counted once its headers have come.
  while (calls.Count() < 4) {
  }
  Connections found = calls.ByConnection();
  ASSERT_EQ(found.size(), 2U);
  if (found[0].calls > found[1].calls) std::swap(found[0], found[1]);
  EXPECT_EQ(found[0].calls, 1U);
  EXPECT_EQ(found[1].calls, 3U);
  EXPECT_EQ(found[0].peer.rfind("ipv4:127.0.0.1:", 0), 0U) << found[0].peer;
  EXPECT_FALSE(found[0].is_served || found[1].is_served);

  // A message on a stream that goes on.
  const grpc::Slice word("word");
  clients.front()->stream->Write(grpc::ByteBuffer(&word, 1), nullptr);
  clients.front()->Await();
  const auto count_served = [&calls] {
    const Connections present = calls.ByConnection();
    return std::count_if(present.begin(), present.end(),
                         [](const auto& each) { return each.is_served; });
  };
  while (count_served() == 0) {
  }
  EXPECT_EQ(count_served(), 1);

  // One has nothing more to say and is answered; the others are given up.
  clients.back()->stream->WritesDone(nullptr);
  clients.back()->Await();
  EXPECT_TRUE(clients.back()->End().ok());
  clients.pop_back();
  for (const auto& call : clients) call->context.TryCancel();
  for (const auto& call : clients) EXPECT_FALSE(call->End().ok());
  clients.clear();
  while (calls.Count() > 0) {
  }
  // A call ends before its stream does.
  const auto is_open = [](const auto& each) { return each.calls != 0; };
  do {
    found = calls.ByConnection();
  } while (std::any_of(found.begin(), found.end(), is_open));
  std::uint64_t answered = 0;
  for (const LiveCalls::OfConnection& each : found) {
    EXPECT_TRUE(each.is_served);
    answered += each.answered;
  }
  EXPECT_EQ(answered, 1U);
}

}  // namespace
}  // namespace gemmd
