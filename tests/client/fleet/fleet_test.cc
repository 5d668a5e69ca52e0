#include "client/fleet/fleet.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/digest/sha256.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gemmd::client {
namespace {

using ::testing::ElementsAre;

std::string DigestOf(int number) { return ToBytes(Sha256Of(absl::StrCat(number))); }

std::vector<std::string> Names(int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back(absl::StrCat("gpu-", i, ":50051"));
  return names;
}

class FleetTest : public ::testing::Test {
 protected:
  FleetTest() { fleet_.SetServers(Names(3)); }

  Fleet::Choice Begin(const std::string& digest = "", const std::vector<int>& met = {}) {
    return fleet_.Begin({digest, -1, met}, now_);
  }
  void Fail(int server, Verdict verdict = Verdict::kUnavailable) {
    fleet_.End(fleet_.BeginAt(server, now_), verdict, now_);
  }
  // The servers of the next calls, each over before the next begins.
  std::set<int> Chosen(int calls) {
    std::set<int> servers;
    for (int i = 0; i < calls; ++i) {
      const Fleet::Choice choice = Begin();
      servers.insert(choice.server);
      fleet_.End(choice, Verdict::kAnswered, now_);
    }
    return servers;
  }

  Fleet fleet_;
  absl::Time now_ = absl::FromUnixSeconds(1000);
};

TEST_F(FleetTest, CallsWithoutAnOperandGoInTurn) {
  std::vector<int> servers;
  for (int i = 0; i < 6; ++i) servers.push_back(Begin().server);
  EXPECT_THAT(servers, ElementsAre(0, 1, 2, 0, 1, 2));
}

TEST_F(FleetTest, AServerThatFailsSeveralTimesIsLeftOutTwiceAsLongEachTime) {
  Fail(1);
  Fail(1);
  EXPECT_THAT(Chosen(6), ElementsAre(0, 1, 2));  // and an answer in between begins the count anew
  Fail(1);
  Fail(1);
  Fail(1);
  for (const int seconds : {1, 2, 4, 8, 16, 32, 60, 60}) {
    EXPECT_THAT(Chosen(6), ElementsAre(0, 2));
    EXPECT_TRUE(fleet_.States(now_)[1].is_ejected);
    now_ += absl::Seconds(seconds) - absl::Milliseconds(1);
    EXPECT_THAT(Chosen(6), ElementsAre(0, 2)) << seconds;
    now_ += absl::Milliseconds(1);
    EXPECT_FALSE(fleet_.States(now_)[1].is_ejected) << seconds;
    const Fleet::Choice trial = Begin("", {0, 2});
    EXPECT_EQ(trial.server, 1);
    EXPECT_TRUE(trial.is_trial);
    EXPECT_THAT(Chosen(6), ElementsAre(0, 2));  // one trial at a time
    fleet_.End(trial, Verdict::kUnavailable, now_);
  }
  now_ += absl::Minutes(1);
  EXPECT_THAT(Chosen(6), ElementsAre(0, 1, 2));
  Fail(1, Verdict::kGone);
  now_ += absl::Seconds(1);  // as the first time
  EXPECT_THAT(Chosen(6), ElementsAre(0, 1, 2));
}

TEST_F(FleetTest, AServerThatIsGoneIsLeftOutAtOnceThoughItEndsWhatItHas) {
  const Fleet::Choice taken = fleet_.BeginAt(1, now_);
  Fail(1, Verdict::kGone);
  fleet_.End(taken, Verdict::kAnswered, now_);
  EXPECT_THAT(Chosen(6), ElementsAre(0, 2));
  // It was started again, and said so.
  fleet_.SetHealth(1, Health::kNotServing);
  fleet_.SetHealth(1, Health::kServing);
  EXPECT_THAT(Chosen(6), ElementsAre(0, 1, 2));
}

TEST_F(FleetTest, ACallThatWasCancelledSaysNothing) {
  for (int i = 0; i < 10; ++i) Fail(1, Verdict::kUntold);
  EXPECT_THAT(Chosen(3), ElementsAre(0, 1, 2));
}

TEST_F(FleetTest, WhereNoneServesAllAreAsked) {
  for (const int server : {0, 1, 2}) fleet_.SetHealth(server, Health::kNotServing);
  EXPECT_FALSE(fleet_.HasOther({}, now_));
  EXPECT_THAT(Chosen(3), ElementsAre(0, 1, 2));
  EXPECT_EQ(Begin("", {0, 1}).server, 2);
}

TEST_F(FleetTest, TheHomeOfAHandleGoesBeforeTheLoad) {
  for (int i = 0; i < 10; ++i) EXPECT_EQ(fleet_.Begin({"", 2, {}}, now_).server, 2);
  EXPECT_NE(fleet_.Begin({"", 2, {2}}, now_).server, 2);
}

TEST_F(FleetTest, AnEmptyFleetChoosesNone) {
  fleet_.SetServers({});
  EXPECT_EQ(Begin().server, -1);
}

TEST_F(FleetTest, AddressesThatChangeTakeNoRoom) {
  const Fleet::Choice old = fleet_.BeginAt(0, now_);
  for (int i = 0; i < 100; ++i) {
    fleet_.SetServers({absl::StrCat("new-", i)});
    const Fleet::Choice choice = Begin();
    EXPECT_EQ(fleet_.name(choice.server), absl::StrCat("new-", i));
    EXPECT_LT(choice.server, 3);
    fleet_.End(choice, Verdict::kAnswered, now_);
  }
  EXPECT_EQ(fleet_.name(0), "gpu-0:50051");  // as long as its attempt goes on
  fleet_.End(old, Verdict::kAnswered, now_);
}

// tests/python/test_fleet.py reads the same orders.
TEST(InOrderOf, IsTheSameInEveryClient) {
  std::ifstream file("tests/client/fleet/orders.txt");
  int orders = 0;
  for (std::string line; std::getline(file, line);) {
    if (line[0] == '#') continue;
    std::vector<std::string> wanted = absl::StrSplit(line, ' ');
    const std::string digest = absl::HexStringToBytes(wanted[0]);
    wanted.erase(wanted.begin());
    std::vector<std::string> names = wanted;
    std::sort(names.begin(), names.end());
    EXPECT_EQ(InOrderOf(digest, names), wanted);
    ++orders;
  }
  EXPECT_EQ(orders, 11);
}

TEST(Rendezvous, AReplicaThatGoesMovesItsOwnOperandsAlone) {
  constexpr int kDigests = 4000;
  for (const int count : {2, 3, 5, 8}) {
    const std::vector<std::string> names = Names(count);
    std::vector<std::string> left(names.begin(), names.end() - 1);
    int moved = 0;
    for (int i = 0; i < kDigests; ++i) {
      const std::vector<std::string> before = InOrderOf(DigestOf(i), names);
      std::vector<std::string> rest = before;
      rest.erase(std::find(rest.begin(), rest.end(), names.back()));
      EXPECT_EQ(InOrderOf(DigestOf(i), left), rest);
      moved += before.front() == names.back() ? 1 : 0;
    }
    // 1/n, within four standard deviations of what chance does.
    const double share = 1.0 / count;
    EXPECT_LT(moved, kDigests * share + 4 * std::sqrt(kDigests * share * (1 - share)));
  }
}

// A client's calls in random order, over servers that fail, leave and come back.
class History {
 public:
  explicit History(unsigned seed) : random_(seed) {}

  void Run(int steps) {
    SetServers();
    for (int i = 0; i < steps && !::testing::Test::HasFailure(); ++i) Step();
    while (!open_.empty()) End(0);
    for (const ServerState& state : fleet_.States(now_)) EXPECT_EQ(state.in_flight, 0);
    EXPECT_EQ(begun_, ended_);
  }

 private:
  int Draw(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random_); }

  void Step() {
    const int what = Draw(20);
    if (what < 9) return Begin();
    if (what < 15) {
      if (!open_.empty()) End(static_cast<std::size_t>(Draw(static_cast<int>(open_.size()))));
    } else if (what < 17) {
      now_ += absl::Milliseconds(Draw(3000));
    } else if (what < 19) {
      const auto states = fleet_.States(now_);
      if (!states.empty()) {
        const ServerState& any =
            states[static_cast<std::size_t>(Draw(static_cast<int>(states.size())))];
        fleet_.SetHealth(fleet_.Find(any.name), static_cast<Health>(Draw(3)));
      }
    } else if (Draw(4) == 0) {
      SetServers();
    }
  }

  void SetServers() {
    std::vector<std::string> names = Names(6);
    std::shuffle(names.begin(), names.end(), random_);
    names.resize(static_cast<std::size_t>(Draw(7)));
    fleet_.SetServers(names);
  }

  static bool IsAble(const ServerState& state) {
    return !state.is_ejected && state.health != Health::kNotServing;
  }

  void Begin() {
    const std::vector<ServerState> before = fleet_.States(now_);
    const std::string digest = Draw(2) == 0 ? "" : DigestOf(Draw(5));
    std::vector<int> met;
    std::set<std::string> met_names;
    for (const ServerState& state : before) {
      if (Draw(4) != 0) continue;
      met.push_back(fleet_.Find(state.name));
      met_names.insert(state.name);
    }
    const Fleet::Choice choice = fleet_.Begin({digest, -1, met}, now_);
    if (before.empty()) {
      EXPECT_EQ(choice.server, -1);
      return;
    }
    ASSERT_GE(choice.server, 0);
    ++begun_;
    open_.push_back(choice);
    const std::string& name = fleet_.name(choice.server);
    const auto is_met = [&](const ServerState& state) { return met_names.count(state.name) > 0; };
    std::vector<ServerState> best;
    const auto keep = [&](auto&& matches) {
      if (!best.empty()) return;
      std::copy_if(before.begin(), before.end(), std::back_inserter(best), matches);
    };
    keep([&](const ServerState& state) { return IsAble(state) && !is_met(state); });
    keep(IsAble);
    keep([&](const ServerState& state) { return !is_met(state); });
    keep([](const ServerState&) { return true; });
    const auto found = std::find_if(best.begin(), best.end(),
                                    [&](const ServerState& state) { return state.name == name; });
    ASSERT_NE(found, best.end()) << name << " was chosen though better ones were there";
    int load = 1;
    for (const ServerState& state : best) load += state.in_flight;
    EXPECT_LE(found->in_flight + 1, std::ceil(1.25 * load / static_cast<double>(best.size())));
  }

  void End(std::size_t index) {
    fleet_.End(open_[index], static_cast<Verdict>(Draw(4)), now_);
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(index));
    ++ended_;
  }

  std::mt19937 random_;
  Fleet fleet_;
  absl::Time now_ = absl::FromUnixSeconds(1000);
  std::vector<Fleet::Choice> open_;
  int begun_ = 0;
  int ended_ = 0;
};

TEST(FleetHistory, NoServerIsPickedOrLoadedThatShouldNotBe) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    History(seed).Run(400);
    ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed;
  }
}

// Closed loops of products by operands of which some are asked for far more often than others.
struct Simulated {
  double hit_rate = 0;
  double most_of_mean = 0;  // requests of the busiest server
  std::size_t holders_of_hottest = 0;
};

Simulated Simulate(int servers, int operands, int in_flight, double skew, int requests) {
  std::mt19937 random(7);
  std::vector<double> weights;
  for (int i = 0; i < operands; ++i) weights.push_back(std::pow(i + 1, -skew));
  std::discrete_distribution<int> operand(weights.begin(), weights.end());
  Fleet fleet;
  fleet.SetServers(Names(servers));
  const absl::Time now = absl::FromUnixSeconds(1000);
  std::map<int, std::set<int>> holders;
  std::vector<Fleet::Choice> open;
  int hits = 0;
  for (int i = 0; i < requests; ++i) {
    if (static_cast<int>(open.size()) == in_flight) {
      const std::size_t over =
          std::uniform_int_distribution<std::size_t>(0, open.size() - 1)(random);
      fleet.End(open[over], Verdict::kAnswered, now);
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(over));
    }
    const int asked = operand(random);
    open.push_back(fleet.Begin({DigestOf(asked), -1, {}}, now));
    hits += holders[asked].insert(open.back().server).second ? 0 : 1;
  }
  double most = 0;
  for (const ServerState& state : fleet.States(now)) {
    most = std::max(most, static_cast<double>(state.attempts));
  }
  return {static_cast<double>(hits) / requests, most * servers / requests, holders[0].size()};
}

TEST(FleetSimulation, OperandsAreFoundAndNoReplicaIsOverloaded) {
  for (const auto& [servers, operands, skew] :
       {std::tuple(3, 30, 0.0), std::tuple(4, 100, 1.0), std::tuple(8, 200, 0.8)}) {
    const Simulated found = Simulate(servers, operands, 64, skew, 40000);
    EXPECT_GE(found.hit_rate, 0.95) << servers;
    EXPECT_LE(found.most_of_mean, 1.3) << servers;
  }
}

TEST(FleetSimulation, OneHotOperandIsOnAsManyServersAsItsLoadNeeds) {
  const Simulated hot = Simulate(4, 1, 64, 0, 10000);
  EXPECT_EQ(hot.holders_of_hottest, 4u);
  EXPECT_LE(hot.most_of_mean, 1.3);
  // One after another they stay together.
  EXPECT_EQ(Simulate(4, 1, 1, 0, 1000).holders_of_hottest, 1u);
}

}  // namespace
}  // namespace gemmd::client
