#include "server/trace/name_lookup.h"

#include <atomic>
#include <cstddef>
#include <future>
#include <memory>
#include <optional>

#include "boost/asio/executor_work_guard.hpp"
#include "gtest/gtest.h"

namespace gemmd {
namespace {

using Addresses = NameLookup::Addresses;
using boost::asio::io_context;

Addresses Loopback(unsigned short port) {
  return {{boost::asio::ip::address_v4::loopback(), port}};
}

// Name servers that answer when the test says so. The lookup's thread may outlive the test's
// objects, so it shares this.
struct Names {
  std::promise<void> may_answer;
  std::shared_future<void> gate{may_answer.get_future()};
  std::promise<void> has_answered;
  std::atomic<int> questions{0};
};

NameLookup::Lookup LookupIn(const std::shared_ptr<Names>& names) {
  return [names] {
    ++names->questions;
    names->gate.wait();
    names->has_answered.set_value();
    return Loopback(7);
  };
}

// Runs the context until `done` has been called.
Addresses FindNow(NameLookup* lookup) {
  io_context io;
  const auto work = boost::asio::make_work_guard(io);
  std::optional<Addresses> found;
  lookup->Find(&io, [&](const Addresses& addresses) { found = addresses; });
  while (!found.has_value()) io.run_one();
  return *found;
}

TEST(NameLookup, TellsTheAddressesOfANameAndOfAnAddress) {
  NameLookup address = NameLookup::System("127.0.0.1", "4318");
  EXPECT_EQ(FindNow(&address), Loopback(4318));
  NameLookup none = NameLookup::System("no such name.invalid", "4318");
  EXPECT_EQ(FindNow(&none), Addresses());
}

TEST(NameLookup, IsNotWaitedFor) {
  const auto names = std::make_shared<Names>();
  {
    io_context io;
    NameLookup lookup(LookupIn(names));
    lookup.Find(&io, [](const Addresses& /*found*/) { FAIL() << "it was forgotten"; });
    // Both go while the lookup is stuck.
  }
  names->may_answer.set_value();
  names->has_answered.get_future().wait();
}

TEST(NameLookup, ForgetSaysWhetherTheAnswerWasToCome) {
  const auto names = std::make_shared<Names>();
  io_context io;
  NameLookup lookup(LookupIn(names));
  EXPECT_FALSE(lookup.Forget());
  lookup.Find(&io, [](const Addresses& /*found*/) { FAIL() << "it was forgotten"; });
  EXPECT_TRUE(lookup.Forget());
  EXPECT_FALSE(lookup.Forget());
  names->may_answer.set_value();
  names->has_answered.get_future().wait();
  io.run();
}

TEST(NameLookup, AnAnswerOnItsWayIsForgottenToo) {
  std::size_t ran = 0;
  // The answer may not be on its way yet; then another is asked for.
  for (int round = 0; round < 1000 && ran == 0; ++round) {
    const auto names = std::make_shared<Names>();
    io_context io;
    NameLookup lookup(LookupIn(names));
    lookup.Find(&io, [](const Addresses& /*found*/) { FAIL() << "it was forgotten"; });
    names->may_answer.set_value();
    names->has_answered.get_future().wait();
    EXPECT_TRUE(lookup.Forget());
    EXPECT_NO_THROW(ran = io.run());
  }
  EXPECT_EQ(ran, 1U);
}

// A collector that cannot be found costs one thread, however many batches ask.
TEST(NameLookup, QuestionsShareTheLookupThatIsStuck) {
  const auto names = std::make_shared<Names>();
  NameLookup lookup(LookupIn(names));
  for (int i = 0; i < 100; ++i) {
    io_context io;
    lookup.Find(&io, [](const Addresses& /*found*/) { FAIL() << "it was forgotten"; });
    EXPECT_TRUE(lookup.Forget());
  }
  io_context io;
  const auto work = boost::asio::make_work_guard(io);
  std::optional<Addresses> found;
  lookup.Find(&io, [&](const Addresses& addresses) { found = addresses; });
  names->may_answer.set_value();
  while (!found.has_value()) io.run_one();
  EXPECT_EQ(*found, Loopback(7));
  EXPECT_EQ(names->questions, 1);
}

}  // namespace
}  // namespace gemmd
