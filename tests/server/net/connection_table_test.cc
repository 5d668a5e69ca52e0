#include "server/net/connection_table.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/time/units.h"
#include "gtest/gtest.h"
#include "server/net/listening_sockets.h"
#include "server/tenants/retry_after.h"
#include "tests/server/net/sockets.h"
#include "tests/testing/fake_clock.h"

namespace gemmd {
namespace {

using testing::Socket;

Socket OpenOne() { return Socket(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

TEST(ConnectionTable, RefusesWhatPassesALimitAndSaysWhich) {
  testing::FakeClock clock;
  ConnectionTable table({3, 2, {}}, {}, &clock);
  const Socket a = OpenOne();
  const Socket b = OpenOne();
  const Socket c = OpenOne();
  const Socket d = OpenOne();
  EXPECT_TRUE(table.Add(a.fd(), "10.0.0.1").ok());
  EXPECT_TRUE(table.Add(b.fd(), "10.0.0.1").ok());
  EXPECT_EQ(
      table.Add(c.fd(), "10.0.0.1").message(),
      "the share of address 10.0.0.1 of open connections is 2, 2 are taken, and this takes 1");
  EXPECT_TRUE(table.Add(c.fd(), "10.0.0.2").ok());
  const absl::Status full = table.Add(d.fd(), "10.0.0.3");
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(full.message(), "the limit of open connections is 3, 3 are taken, and this takes 1");
  EXPECT_EQ(RetryAfterMs(full), std::nullopt);
}

TEST(ConnectionTable, CountsWhatItsPeersHaveNotAcknowledged) {
  testing::FakeClock clock;
  ConnectionTable table({3, 3, {}}, {}, &clock);
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  int others[2];  // as to a collector
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, others), 0);
  const Socket own(ends[0]), client(ends[1]), foreign(others[0]), collector(others[1]);
  ASSERT_TRUE(table.Add(own.fd(), "a").ok());
  EXPECT_EQ(table.UnacknowledgedBytes(), 0U);
  ASSERT_EQ(send(foreign.fd(), "12345", 5, 0), 5);
  EXPECT_EQ(table.UnacknowledgedBytes(), 0U);
  ASSERT_EQ(send(own.fd(), "123", 3, 0), 3);
  EXPECT_GE(table.UnacknowledgedBytes(), 3U) << "a local socket's have overhead";
  char bytes[3];
  ASSERT_EQ(recv(client.fd(), bytes, sizeof bytes, MSG_WAITALL), 3);
  EXPECT_EQ(table.UnacknowledgedBytes(), 0U);
}

TEST(ConnectionTable, ClosesAllAndNoDescriptorThatIsAnothersByNow) {
  testing::FakeClock clock;
  ConnectionTable table({3, 3, {}}, {}, &clock);
  std::vector<Socket> servers, clients;
  for (int i = 0; i < 3; ++i) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    servers.emplace_back(ends[0]);
    clients.emplace_back(ends[1]);
    ASSERT_TRUE(table.Add(servers.back().fd(), "10.0.0." + std::to_string(i)).ok());
  }
  int others[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, others), 0);
  const Socket foreign(others[0]), collector(others[1]);
  ASSERT_EQ(dup3(foreign.fd(), servers[2].fd(), O_CLOEXEC), servers[2].fd());
  table.CloseAll();
  char byte;
  EXPECT_EQ(recv(clients[0].fd(), &byte, 1, MSG_DONTWAIT), 0);
  EXPECT_EQ(recv(clients[1].fd(), &byte, 1, MSG_DONTWAIT), 0);
  EXPECT_EQ(send(foreign.fd(), "1", 1, 0), 1);
  EXPECT_EQ(recv(collector.fd(), &byte, 1, MSG_DONTWAIT), 1);
}

TEST(ConnectionTable, LetsAProxyHaveAllThatThereAre) {
  testing::FakeClock clock;
  ConnectionTable table({3, 1, {"10.0.0.1"}}, {}, &clock);
  std::vector<Socket> sockets;
  for (int i = 0; i < 3; ++i) {
    sockets.push_back(OpenOne());
    EXPECT_TRUE(table.Add(sockets.back().fd(), "10.0.0.1").ok());
  }
  const Socket one_more = OpenOne();
  EXPECT_FALSE(table.Add(one_more.fd(), "10.0.0.1").ok());
}

TEST(ConnectionTable, ForgetsWhatWasClosed) {
  testing::FakeClock clock;
  ConnectionTable table({2, 2, {}}, {}, &clock);
  const Socket kept = OpenOne();
  Socket closed = OpenOne();
  ASSERT_TRUE(table.Add(kept.fd(), "a").ok());
  ASSERT_TRUE(table.Add(closed.fd(), "a").ok());
  closed.Close();
  const Socket next = OpenOne();  // has the closed one's descriptor
  EXPECT_TRUE(table.Add(next.fd(), "a").ok());
  const Socket third = OpenOne();
  clock.Advance(kSecond);
  EXPECT_EQ(table.Add(third.fd(), "b").message(),
            "the limit of open connections is 2, 2 are taken, and this takes 1");
}

// Looking at all connections costs time, so whoever knocks often is told what the last look saw.
TEST(ConnectionTable, LooksAgainAfterAWhile) {
  testing::FakeClock clock;
  ConnectionTable table({1, 1, {}}, {}, &clock);
  Socket first = OpenOne();
  const Socket second = OpenOne();
  ASSERT_TRUE(table.Add(first.fd(), "a").ok());
  ASSERT_FALSE(table.Add(second.fd(), "a").ok());
  first.Close();
  EXPECT_FALSE(table.Add(second.fd(), "a").ok());
  clock.Advance(kSecond);
  EXPECT_TRUE(table.Add(second.fd(), "a").ok());
}

TEST(ConnectionTable, APeerOpensFewASecondAfterItsFirst) {
  testing::FakeClock clock;
  ConnectionTable table({100, 3, {"proxy"}, kSecond / 10}, {}, &clock);
  const auto open_and_close = [&](const std::string& peer) {
    const Socket socket = OpenOne();
    return table.Add(socket.fd(), peer);
  };
  // Returns how many of ten come in.
  const auto open_ten = [&](const std::string& peer) {
    int opened = 0;
    for (int i = 0; i < 10; ++i) {
      opened += open_and_close(peer).ok() ? 1 : 0;
      clock.Advance(kSecond / 1000);
    }
    return opened;
  };
  clock.Advance(100 * kSecond);
  EXPECT_EQ(open_ten("a"), 3);
  EXPECT_EQ(open_and_close("a"),
            absl::ResourceExhaustedError("a opens more than 10 connections a second"));
  EXPECT_EQ(open_ten("b"), 3);
  EXPECT_EQ(open_ten("proxy"), 10);
  clock.Advance(kSecond / 10);
  EXPECT_EQ(open_ten("a"), 1);
  clock.Advance(kSecond / 5);
  EXPECT_EQ(open_ten("a"), 2);
  clock.Advance(10 * kSecond);
  EXPECT_EQ(open_ten("a"), 3);
}

// Whatever they were before, who comes is measured by the limits that there are now, and who is
// there stays.
TEST(ConnectionTable, LimitsChangeWhileConnectionsComeAndGo) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    testing::FakeClock clock;
    ConnectionTable::Limits limits{5, 3, {"proxy"}, 0, 0};
    ConnectionTable table(limits, {}, &clock);
    std::map<std::string, std::vector<Socket>> open;
    std::size_t all = 0;
    for (int step = 0; step < 300; ++step) {
      const char* const peers[] = {"a", "b", "proxy"};
      const std::string peer = peers[random() % 3];
      std::vector<Socket>& own = open[peer];
      switch (random() % 5) {
        case 0:
          limits.all = random() % 10;
          limits.per_peer = random() % 5;
          table.SetLimits(limits, {});
          break;
        case 1:
          if (own.empty()) break;
          own.pop_back();
          --all;
          break;
        default:
          const bool has_room =
              all < limits.all && (peer == "proxy" || own.size() < limits.per_peer);
          Socket next = OpenOne();
          ASSERT_EQ(table.Add(next.fd(), peer).ok(), has_room) << seed << ", " << step;
          if (!has_room) break;
          own.push_back(std::move(next));
          ++all;
      }
      const ConnectionTable::Usage usage = table.usage();
      ASSERT_EQ(usage.open, all) << seed << ", " << step;
      ASSERT_EQ(usage.limit, limits.all);
    }
  }
}

TEST(ConnectionTable, ARateThatChangesHoldsFromThenOn) {
  testing::FakeClock clock;
  clock.Advance(100 * kSecond);
  ConnectionTable::Limits limits{100, 3, {}, kSecond, 0};
  ConnectionTable table(limits, {}, &clock);
  const auto open_ten = [&] {
    int opened = 0;
    for (int i = 0; i < 10; ++i) opened += table.Add(OpenOne().fd(), "a").ok() ? 1 : 0;
    return opened;
  };
  const auto set_interval = [&](TimeNs interval) {
    limits.interval = interval;
    table.SetLimits(limits, {});
  };
  EXPECT_EQ(open_ten(), 3);
  set_interval(0);
  EXPECT_EQ(open_ten(), 10);
  set_interval(kSecond / 4);
  EXPECT_EQ(open_ten(), 3) << "as a new one";
  clock.Advance(kSecond / 2);
  EXPECT_EQ(open_ten(), 2);
  clock.Advance(kSecond);
  EXPECT_EQ(open_ten(), 3);
}

// A client's socket and the one that the server accepted.
struct Pair {
  explicit Pair(const ListeningSockets& listening, int receive_buffer = 0) {
    if (receive_buffer != 0) {
      setsockopt(client.fd(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    }
    testing::Connect(client, listening.port(), 3);
    pollfd ready{listening.sockets().front(), POLLIN, 0};
    poll(&ready, 1, -1);
    accepted = Socket(accept4(listening.sockets().front(), nullptr, nullptr, SOCK_NONBLOCK));
  }
  Socket client = testing::NewClient();
  Socket accepted{-1};
};

// Opens and closes as many connections as a test needs, of one peer unless another is named.
class ClosedPeer : public ::testing::Test {
 protected:
  ClosedPeer() {
    EXPECT_TRUE(listening_.ok());
    clock_.Advance(100 * kSecond);
  }

  bool MayOpen(const std::string& peer = "127.0.0.3") {
    pairs_.push_back(std::make_unique<Pair>(*listening_));
    return table_.Add(pairs_.back()->accepted.fd(), peer).ok();
  }
  // Closes the one that was opened last.
  bool Close(ConnectionTable::Reopening reopening = ConnectionTable::Reopening::kLater) {
    return table_.Close(EndpointOf(pairs_.back()->accepted.fd()), reopening);
  }
  // The seconds until it may open another, which it does.
  double Wait() {
    double seconds = 0;
    while (!MayOpen()) {
      pairs_.pop_back();
      clock_.Advance(kSecond / 8);
      seconds += 0.125;
      if (seconds > 100) return -1;
    }
    return seconds;
  }

  const absl::StatusOr<ListeningSockets> listening_ = ListeningSockets::Listen("127.0.0.1:0");
  testing::FakeClock clock_;
  ConnectionTable table_{{9, 9, {}, kSecond / 8}, {}, &clock_};
  std::vector<std::unique_ptr<Pair>> pairs_;
};

TEST_F(ClosedPeer, OpensNoOtherForASecond) {
  ASSERT_TRUE(MayOpen());
  ASSERT_TRUE(MayOpen());
  ASSERT_TRUE(Close());
  EXPECT_FALSE(Close()) << "a second time";
  EXPECT_TRUE(MayOpen("127.0.0.4"));
  pairs_.pop_back();
  pairs_.pop_back();
  clock_.Advance(kSecond / 20);
  ASSERT_TRUE(Close()) << "which counts as one with the first";
  EXPECT_DOUBLE_EQ(Wait(), 1.125);
}

TEST_F(ClosedPeer, IsKeptOutTwiceAsLongWhereItHappensAgainSoon) {
  ASSERT_TRUE(MayOpen());
  for (const double seconds : {1.125, 2.125, 4.125, 8.125, 8.125}) {
    ASSERT_TRUE(Close());
    EXPECT_DOUBLE_EQ(Wait(), seconds);
  }
  pairs_.erase(pairs_.begin(), pairs_.end() - 1);
  clock_.Advance(16 * kSecond);
  ASSERT_TRUE(Close());
  EXPECT_DOUBLE_EQ(Wait(), 1.125) << "long after that";
}

TEST_F(ClosedPeer, IsRememberedWhileItHasNoConnection) {
  ASSERT_TRUE(MayOpen());
  ASSERT_TRUE(Close());
  pairs_.clear();
  for (int i = 0; i < 8; ++i) {
    clock_.Advance(kSecond / 2);
    EXPECT_EQ(table_.usage().open, 0U);
  }
  ASSERT_TRUE(MayOpen());
  ASSERT_TRUE(Close());
  EXPECT_DOUBLE_EQ(Wait(), 2.125);
}

TEST_F(ClosedPeer, MayOpenAnotherAtOnceWhereThatIsSaid) {
  ASSERT_TRUE(MayOpen());
  ASSERT_TRUE(Close(ConnectionTable::Reopening::kAtOnce));
  EXPECT_DOUBLE_EQ(Wait(), 0);
}

Tenant WithConnections(const std::string& name, std::uint64_t limit) {
  Quota quota;
  quota.account = name;
  quota.limits[static_cast<std::size_t>(Quantity::kConnections)] = limit;
  return Tenant::Named(name)->With(std::make_shared<const Quota>(std::move(quota)));
}

class CountedConnectionsTest : public ::testing::Test {
 protected:
  // Opens one and gives its endpoint.
  std::string Open() {
    pairs_.push_back(std::make_unique<Pair>(*listening_));
    EXPECT_TRUE(table_.Add(pairs_.back()->accepted.fd(), "127.0.0.3").ok());
    return EndpointOf(pairs_.back()->accepted.fd());
  }
  std::uint64_t CountOf(const Tenant& tenant) const {
    return quotas_.UseOf(tenant).amounts[static_cast<std::size_t>(Quantity::kConnections)];
  }

  const absl::StatusOr<ListeningSockets> listening_ = ListeningSockets::Listen("127.0.0.1:0");
  testing::FakeClock clock_;
  int refusals_ = 0;
  Quotas quotas_{&clock_, [this](const Tenant&, const absl::Status&) { ++refusals_; }};
  ConnectionTable table_{{99, 99, {}}, {10 * kSecond, 1}, &clock_, &quotas_};
  std::vector<std::unique_ptr<Pair>> pairs_;
};

TEST_F(CountedConnectionsTest, ATenantHasAsManyAsItsQuotaSays) {
  const Tenant alice = WithConnections("alice", 2);
  const std::string first = Open();
  const std::string second = Open();
  const std::string third = Open();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(table_.CountFor(alice, first).ok());
  EXPECT_EQ(CountOf(alice), 1U) << "however many calls come over it";
  EXPECT_TRUE(table_.CountFor(alice, second).ok());
  const absl::Status refused = table_.CountFor(alice, third);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.message(),
            "the tenant's quota of connections is 2, 2 are taken, and this takes 1");
  EXPECT_EQ(refusals_, 1);
  EXPECT_TRUE(table_.CountFor(alice, first).ok()) << "those that it has go on";
  const Tenant bob = WithConnections("bob", 1);
  EXPECT_TRUE(table_.CountFor(bob, third).ok());
  EXPECT_TRUE(table_.CountFor(*Tenant::Named("carol"), third).ok()) << "who has no quota";
}

TEST_F(CountedConnectionsTest, OneThatWasClosedIsGivenBack) {
  const Tenant alice = WithConnections("alice", 1);
  ASSERT_TRUE(table_.CountFor(alice, Open()).ok());
  const std::string second = Open();
  ASSERT_FALSE(table_.CountFor(alice, second).ok());
  pairs_.front()->accepted.Close();
  clock_.Advance(kSecond);
  EXPECT_TRUE(table_.CountFor(alice, second).ok()) << "whoever is refused is looked at again";
  pairs_.back()->accepted.Close();
  clock_.Advance(kSecond);
  table_.CloseStalled();
  EXPECT_EQ(CountOf(alice), 0U) << "by the look that comes anyway";
}

// The system gives an endpoint to a new connection before the table knows that the old one has
// gone.
TEST_F(CountedConnectionsTest, ANewOneOfTheSameEndpointIsNobodysYet) {
  const Tenant alice = WithConnections("alice", 1);
  const std::string endpoint = Open();
  ASSERT_TRUE(table_.CountFor(alice, endpoint).ok());
  ASSERT_TRUE(table_.Add(pairs_.back()->accepted.fd(), "127.0.0.3").ok());
  EXPECT_EQ(CountOf(alice), 0U);
}

TEST_F(CountedConnectionsTest, WhatIsNotThereAndWhatHasNoEndpointCountsForNobody) {
  const Tenant alice = WithConnections("alice", 1);
  const Socket local = OpenOne();
  ASSERT_TRUE(table_.Add(local.fd(), "unix").ok());
  for (const char* endpoint : {"127.0.0.9:1", "unix", "gone"}) {
    EXPECT_TRUE(table_.CountFor(alice, endpoint).ok());
  }
  EXPECT_EQ(CountOf(alice), 0U);
}

// A gateway's connection.
TEST_F(CountedConnectionsTest, OneCountsForTheLastSixteenTenantsThatShareIt) {
  const std::string shared = Open();
  std::vector<Tenant> tenants;
  for (int i = 0; i < 17; ++i) {
    tenants.push_back(WithConnections(std::to_string(i), 1));
    ASSERT_TRUE(table_.CountFor(tenants.back(), shared).ok());
  }
  EXPECT_EQ(CountOf(tenants[0]), 0U);
  for (int i = 1; i < 17; ++i) EXPECT_EQ(CountOf(tenants[i]), 1U) << i;
}

TEST(ConnectionTable, ClosesAConnectionByItsEndpoint) {
  const absl::StatusOr<ListeningSockets> listening = ListeningSockets::Listen("127.0.0.1:0");
  ASSERT_TRUE(listening.ok());
  testing::FakeClock clock;
  ConnectionTable table({9, 9, {}}, {}, &clock);
  Pair one(*listening);
  const Pair other(*listening);
  ASSERT_TRUE(table.Add(one.accepted.fd(), "127.0.0.3").ok());
  ASSERT_TRUE(table.Add(other.accepted.fd(), "127.0.0.3").ok());
  const std::string endpoint = EndpointOf(one.accepted.fd());
  EXPECT_EQ(endpoint.rfind("127.0.0.3:", 0), 0U) << endpoint;
  EXPECT_FALSE(table.Close("127.0.0.3:1"));
  ASSERT_EQ(send(one.client.fd(), "abc", 3, MSG_NOSIGNAL), 3);
  EXPECT_TRUE(table.Close(endpoint));
  EXPECT_TRUE(testing::IsClosedByPeer(one.accepted)) << "what has come is dropped";
  EXPECT_TRUE(testing::IsClosedByPeer(one.client));
  // The next file has its descriptor, and must not be touched.
  one.accepted.Close();
  Pair next(*listening);
  EXPECT_FALSE(table.Close(endpoint));
  EXPECT_EQ(send(next.client.fd(), "x", 1, MSG_NOSIGNAL), 1);
  EXPECT_EQ(send(other.accepted.fd(), "x", 1, MSG_NOSIGNAL), 1);
}

TEST(ConnectionTable, ClosesConnectionsThatAreNotRead) {
  const absl::StatusOr<ListeningSockets> listening = ListeningSockets::Listen("127.0.0.1:0");
  ASSERT_TRUE(listening.ok());
  testing::FakeClock clock;
  ConnectionTable table({9, 9, {}}, {10 * kSecond, 1000}, &clock);
  const Pair stuck(*listening, 4096);
  const Pair idle(*listening);
  ASSERT_TRUE(table.Add(stuck.accepted.fd(), "a").ok());
  ASSERT_TRUE(table.Add(idle.accepted.fd(), "a").ok());
  const std::string bytes(1 << 20, 'x');
  while (send(stuck.accepted.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0) {
  }
  // The system may still be moving what its buffers take; what follows is by the clock alone.
  std::vector<std::string> closed;
  for (int i = 0; i < 1000 && closed.empty(); ++i) {
    clock.Advance(table.look_period());
    closed = table.CloseStalled();
    if (i <= 10) {
      EXPECT_TRUE(closed.empty()) << i;
    }
  }
  EXPECT_EQ(closed.size(), 1U);
  clock.Advance(100 * kSecond);
  EXPECT_TRUE(table.CloseStalled().empty());
  EXPECT_EQ(send(idle.accepted.fd(), "x", 1, MSG_NOSIGNAL), 1);
}

// Both ends of a local connection.
struct LocalPair {
  LocalPair() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    accepted = Socket(ends[0]);
    client = Socket(ends[1]);
  }
  Socket accepted{-1};
  Socket client{-1};
};

void Fill(const Socket& socket) {
  const std::string bytes(1 << 16, 'x');
  while (send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0) {
  }
}

TEST(ConnectionTable, ClosesLocalConnectionsThatAreNotRead) {
  testing::FakeClock clock;
  ConnectionTable table({9, 9, {}}, {10 * kSecond, 1000}, &clock);
  const LocalPair stuck;
  const LocalPair slow;
  const LocalPair idle;
  EXPECT_EQ(send(idle.accepted.fd(), "x", 1, MSG_NOSIGNAL), 1) << "which it never reads";
  for (const LocalPair* each : {&stuck, &slow, &idle}) {
    ASSERT_EQ(PeerOf(each->accepted.fd()), "unix");
    ASSERT_TRUE(table.Add(each->accepted.fd(), "unix").ok());
  }
  Fill(stuck.accepted);
  Fill(slow.accepted);
  std::string bytes(1 << 15, ' ');
  int looks = 0;
  for (; looks < 100 && table.CloseStalled().empty(); ++looks) {
    clock.Advance(table.look_period());
    if (looks % 10 != 0) continue;
    EXPECT_GT(recv(slow.client.fd(), bytes.data(), bytes.size(), 0), 0);
  }
  EXPECT_EQ(looks, 21) << "of half a second, and the first began the window";
  EXPECT_LT(send(stuck.accepted.fd(), "x", 1, MSG_NOSIGNAL), 0);
  EXPECT_EQ(errno, EPIPE);
  EXPECT_EQ(send(idle.accepted.fd(), "x", 1, MSG_NOSIGNAL), 1);
  EXPECT_NE(send(slow.accepted.fd(), "x", 1, MSG_NOSIGNAL) < 0 ? errno : 0, EPIPE);
}

TEST(ConnectionTable, WhoHasSomethingToReadKeepsTheTimeThatItHad) {
  testing::FakeClock clock;
  ConnectionTable::Limits limits{9, 9, {}};
  ConnectionTable table(limits, {10 * kSecond, 1000}, &clock);
  const LocalPair before;
  const LocalPair after;
  for (const LocalPair* each : {&before, &after}) {
    ASSERT_TRUE(table.Add(each->accepted.fd(), "unix").ok());
  }
  Fill(before.accepted);
  ASSERT_TRUE(table.CloseStalled().empty());
  table.SetLimits(limits, {2 * kSecond, 1000});
  Fill(after.accepted);
  const auto is_closed = [](const LocalPair& pair) {
    return send(pair.accepted.fd(), "x", 1, MSG_NOSIGNAL) < 0 && errno == EPIPE;
  };
  ASSERT_TRUE(table.CloseStalled().empty());
  clock.Advance(3 * kSecond);
  table.CloseStalled();
  EXPECT_TRUE(is_closed(after));
  EXPECT_FALSE(is_closed(before));
  clock.Advance(8 * kSecond);
  table.CloseStalled();
  EXPECT_TRUE(is_closed(before));
}

// Local connections cannot be told apart by their peer's name.
TEST(ConnectionTable, ClosesTheLocalConnectionThatKeepsTheServerBusy) {
  testing::FakeClock clock;
  ConnectionTable table({9, 9, {}, kSecond / 8}, {}, &clock);
  clock.Advance(100 * kSecond);
  const LocalPair polite;
  const LocalPair flood;
  const LocalPair next;
  ASSERT_TRUE(table.Add(polite.accepted.fd(), "unix").ok());
  ASSERT_TRUE(table.Add(flood.accepted.fd(), "unix").ok());
  EXPECT_EQ(send(polite.client.fd(), "xx", 2, MSG_NOSIGNAL), 2);
  EXPECT_FALSE(table.Close("unix")) << "hardly anything waits to be read";
  Fill(flood.client);
  EXPECT_TRUE(table.Close("unix"));
  EXPECT_EQ(send(polite.client.fd(), "x", 1, MSG_NOSIGNAL), 1);
  EXPECT_LT(send(flood.client.fd(), "x", 1, MSG_NOSIGNAL), 0);
  EXPECT_FALSE(table.Add(next.accepted.fd(), "unix").ok()) << "as one peer they wait";
}

TEST(ConnectionTable, TellsWhatConnectionsBroughtAndTook) {
  const absl::StatusOr<ListeningSockets> listening = ListeningSockets::Listen("127.0.0.1:0");
  ASSERT_TRUE(listening.ok());
  testing::FakeClock clock;
  ConnectionTable table({9, 9, {}}, {}, &clock);
  const Pair pair(*listening);
  const LocalPair local;
  ASSERT_TRUE(table.Add(pair.accepted.fd(), "a").ok());
  ASSERT_TRUE(table.Add(local.accepted.fd(), "unix").ok());
  const std::string endpoint = EndpointOf(pair.accepted.fd());
  EXPECT_EQ(send(pair.client.fd(), "12345", 5, MSG_NOSIGNAL), 5);
  pollfd ready{pair.accepted.fd(), POLLIN, 0};
  poll(&ready, 1, -1);
  const ConnectionTable::Traffic traffic = table.ReadTraffic();
  ASSERT_EQ(traffic.size(), 1U) << "local ones are not counted";
  ASSERT_EQ(traffic.count(endpoint), 1U);
  EXPECT_EQ(traffic.at(endpoint).received, 5U);
  EXPECT_EQ(traffic.at(endpoint).sent, 0U);
  EXPECT_EQ(traffic.at(endpoint).unread, 5U);
  char bytes[3];
  EXPECT_EQ(recv(pair.accepted.fd(), bytes, sizeof bytes, 0), 3);
  EXPECT_EQ(table.ReadTraffic().at(endpoint).unread, 2U);
  EXPECT_TRUE(table.Close(endpoint));
  EXPECT_TRUE(table.ReadTraffic().empty()) << "its owner has not closed it yet";
}

// Returns the server's name for a client that connects from 127.0.0.3, or from [::1].
std::string PeerOnLoopback(const std::string& listen, bool is_ipv6) {
  const absl::StatusOr<ListeningSockets> listening = ListeningSockets::Listen(listen);
  if (!listening.ok()) return std::string(listening.status().message());
  Socket client = testing::NewClient();
  if (is_ipv6) {
    client = Socket(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_addr = in6addr_loopback;
    address.sin6_port = htons(static_cast<std::uint16_t>(listening->port()));
    const auto* const to = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(connect(client.fd(), to, sizeof address), 0);
  } else {
    testing::Connect(client, listening->port(), 3);
  }
  pollfd ready{listening->sockets().front(), POLLIN, 0};
  poll(&ready, 1, -1);
  const Socket accepted(accept(listening->sockets().front(), nullptr, nullptr));
  return PeerOf(accepted.fd());
}

TEST(PeerOf, IsTheAddressWhateverTheSocketsFamily) {
  EXPECT_EQ(PeerOnLoopback("127.0.0.1:0", false), "127.0.0.3");
  EXPECT_EQ(PeerOnLoopback("[::]:0", false), "127.0.0.3");  // as ::ffff:127.0.0.3, with IPv6
}

TEST(PeerOf, IsTheNetworkOfAnIPv6Address) {
  if (!ListeningSockets::Listen("[::1]:0").ok()) GTEST_SKIP() << "this machine has no IPv6";
  EXPECT_EQ(PeerOnLoopback("[::1]:0", true), "::/64");
}

TEST(PeerOf, OfALocalSocketIsUnix) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const Socket one(ends[0]);
  const Socket other(ends[1]);
  EXPECT_EQ(PeerOf(one.fd()), "unix");
}

// The table lets in what the limits allow and nothing else, whatever comes and goes.
TEST(ConnectionTable, CountsThroughRandomHistories) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    testing::FakeClock clock;
    ConnectionTable table({8, 3, {}}, {}, &clock);
    std::vector<std::vector<Socket>> open(4);
    std::size_t all = 0;
    for (int step = 0; step < 300; ++step) {
      clock.Advance(kSecond);
      const std::size_t peer = random() % open.size();
      if (random() % 3 == 0 && !open[peer].empty()) {
        open[peer].pop_back();
        --all;
        continue;
      }
      Socket socket = OpenOne();
      const bool has_room = all < 8 && open[peer].size() < 3;
      ASSERT_EQ(table.Add(socket.fd(), std::to_string(peer)).ok(), has_room) << seed << " " << step;
      if (!has_room) continue;
      open[peer].push_back(std::move(socket));
      ++all;
    }
  }
}

}  // namespace
}  // namespace gemmd
