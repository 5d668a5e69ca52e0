#include "server/net/acceptor.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "server/net/forwarded_peers.h"
#include "server/net/listening_sockets.h"
#include "tests/server/net/sockets.h"
#include "tests/testing/fake_clock.h"

namespace gemmd {
namespace {

using testing::Connect;
using testing::IsClosedByPeer;
using testing::NewClient;
using testing::Socket;

// Keeps what is handed over.
class Served {
 public:
  void Take(int fd) {
    const std::lock_guard<std::mutex> lock(mutex_);
    connections_.emplace_back(fd);
    changed_.notify_all();
  }
  void WaitFor(std::size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return connections_.size() >= count; });
  }
  std::size_t count() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return connections_.size();
  }
  // Reads the bytes that wait there.
  std::string ReadAll(std::size_t index) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::array<char, 256> bytes{};
    const ssize_t got = recv(connections_[index].fd(), bytes.data(), bytes.size(), 0);
    return {bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(0, got))};
  }
  void Close(std::size_t index) {
    const std::lock_guard<std::mutex> lock(mutex_);
    connections_[index].Close();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Socket> connections_;
};

class AcceptorTest : public ::testing::Test {
 protected:
  explicit AcceptorTest(ForwardedPeers* forwarded = nullptr) : forwarded_(forwarded) {}
  int port() const { return listening_->port(); }

  ForwardedPeers* const forwarded_;
  testing::FakeClock clock_;
  ConnectionTable table_{{6, 4, {}}, {}, &clock_};
  absl::StatusOr<ListeningSockets> listening_ = ListeningSockets::Listen("127.0.0.1:0");
  Served served_;
  std::atomic<bool> may_connect_{true};
  Acceptor acceptor_{listening_->sockets(),
                     &table_,
                     &clock_,
                     [this](const std::string& peer) {
                       EXPECT_EQ(peer.substr(0, 8), "127.0.0.");
                       return may_connect_ ? absl::OkStatus() : absl::ResourceExhaustedError("no");
                     },
                     [this](int fd) { served_.Take(fd); },
                     forwarded_};
};

TEST_F(AcceptorTest, OnePeerLeavesRoomForOthers) {
  std::vector<Socket> many;
  for (int i = 0; i < 4; ++i) {
    many.push_back(NewClient());
    Connect(many.back(), port());
  }
  served_.WaitFor(4);
  const Socket refused = NewClient();
  Connect(refused, port());
  EXPECT_TRUE(IsClosedByPeer(refused));
  const Socket other = NewClient();
  Connect(other, port(), 2);
  served_.WaitFor(5);

  // Once one ends, another may begin.
  served_.Close(0);
  clock_.Advance(1'000'000'000);
  const Socket next = NewClient();
  Connect(next, port());
  served_.WaitFor(6);
  EXPECT_EQ(served_.count(), 6U);
}

// The process has one set of proxies: none again at the end.
class ProxiesTest : public AcceptorTest {
 protected:
  ProxiesTest() : AcceptorTest(&ForwardedPeers::Get()) { forwarded_->SetProxies({"127.0.0.9"}); }
  ~ProxiesTest() override { forwarded_->SetProxies({}); }

  Socket FromProxy() {
    Socket proxy = NewClient();
    Connect(proxy, port(), 9);
    return proxy;
  }
  static void Send(const Socket& to, absl::string_view bytes) {
    ASSERT_EQ(send(to.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  static std::string NameOf(const Socket& proxy) {
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    getsockname(proxy.fd(), reinterpret_cast<sockaddr*>(&own), &size);
    const std::string endpoint = EndpointOf(own);
    return ForwardedPeers::Get().Name("ipv4:" + endpoint, PeerOf(own), endpoint);
  }
};

// As the listener for observers, whom HAProxy asks for the server's health.
TEST_F(AcceptorTest, WithoutProxiesNoConnectionHasAHeader) {
  ForwardedPeers::Get().SetProxies({"127.0.0.9"});
  const Socket client = NewClient();
  Connect(client, port(), 9);
  served_.WaitFor(1);
  ForwardedPeers::Get().SetProxies({});
}

TEST_F(ProxiesTest, ClientsCountInTheProxysPlace) {
  std::vector<Socket> many;
  for (int i = 0; i < 4; ++i) {
    many.push_back(FromProxy());
    Send(many.back(), "PROXY TCP4 127.0.0.1 10.0.0.2 4711 443\r\n");
  }
  served_.WaitFor(4);
  const Socket refused = FromProxy();
  Send(refused, "PROXY TCP4 127.0.0.1 10.0.0.2 4712 443\r\n");
  EXPECT_TRUE(IsClosedByPeer(refused));
  const Socket other = FromProxy();
  Send(other, "PROXY TCP4 127.0.0.2 10.0.0.2 4711 443\r\n");
  served_.WaitFor(5);
  EXPECT_EQ(NameOf(other).substr(0, 29), "ipv4:127.0.0.2:4711 via 127.0");
}

TEST_F(ProxiesTest, NoByteBehindTheHeaderIsTaken) {
  const Socket proxy = FromProxy();
  Send(proxy, "PROXY TCP4 127.0.0.1 10.0.0.2 4711 443\r\nPRI * HTTP/2.0");
  served_.WaitFor(1);
  EXPECT_EQ(served_.ReadAll(0), "PRI * HTTP/2.0");
}

TEST_F(ProxiesTest, AHeaderMayComeInPieces) {
  const Socket proxy = FromProxy();
  Send(proxy, "PROXY TCP4 127.0.0.1 10.");
  const Socket other = NewClient();  // which nobody keeps waiting
  Connect(other, port(), 2);
  served_.WaitFor(1);
  Send(proxy, "0.0.2 4711 443\r\n");
  served_.WaitFor(2);
}

TEST_F(ProxiesTest, WithoutAHeaderItIsClosed) {
  const Socket wrong = FromProxy();
  Send(wrong, "PRI * HTTP/2.0\r\n\r\n");
  EXPECT_TRUE(IsClosedByPeer(wrong));
  const Socket silent = FromProxy();
  const Socket half = FromProxy();
  Send(half, "PROXY TCP4");
  Socket counted = FromProxy();
  Send(counted, "PROXY UNKNOWN\r\n");
  served_.WaitFor(1);  // so that those before it wait
  clock_.Advance(Acceptor::kHeaderTime);
  EXPECT_TRUE(IsClosedByPeer(silent));
  EXPECT_TRUE(IsClosedByPeer(half));
  EXPECT_EQ(served_.count(), 1U);
}

TEST_F(ProxiesTest, TheOldestGoesWhereTooManyWait) {
  std::vector<Socket> waiting;
  for (std::size_t i = 0; i <= Acceptor::kMostArriving; ++i) waiting.push_back(FromProxy());
  EXPECT_TRUE(IsClosedByPeer(waiting.front()));
  Send(waiting.back(), "PROXY UNKNOWN\r\n");
  served_.WaitFor(1);
  // The proxy stands for a client of which it says nothing, which is on no host of this one.
  const std::string name = NameOf(waiting.back());
  EXPECT_EQ(name.substr(0, 15), "ipv4:127.0.0.9:");
  EXPECT_NE(name.find(" via 127.0.0.9:"), std::string::npos) << name;
}

TEST_F(ProxiesTest, OthersSendNoHeader) {
  const Socket client = NewClient();
  Connect(client, port(), 3);
  Send(client, "PROXY TCP4 127.0.0.1 10.0.0.2 4711 443\r\n");
  served_.WaitFor(1);
  EXPECT_EQ(served_.ReadAll(0), "PROXY TCP4 127.0.0.1 10.0.0.2 4711 443\r\n");
}

// Descriptors of this process, until none is left.
class AllDescriptors {
 public:
  AllDescriptors() {
    getrlimit(RLIMIT_NOFILE, &limit_);
    rlimit low = limit_;
    low.rlim_cur = 256;
    setrlimit(RLIMIT_NOFILE, &low);
    for (int fd = dup(STDERR_FILENO); fd >= 0; fd = dup(STDERR_FILENO)) taken_.emplace_back(fd);
  }
  ~AllDescriptors() { setrlimit(RLIMIT_NOFILE, &limit_); }
  AllDescriptors(const AllDescriptors&) = delete;
  AllDescriptors& operator=(const AllDescriptors&) = delete;

 private:
  rlimit limit_{};
  std::vector<Socket> taken_;
};

TEST_F(AcceptorTest, WhoMayNotConnectIsClosedAtOnce) {
  may_connect_ = false;
  const Socket refused = NewClient();
  Connect(refused, port());
  EXPECT_TRUE(IsClosedByPeer(refused));
  may_connect_ = true;
  const Socket taken = NewClient();
  Connect(taken, port());
  served_.WaitFor(1);
}

TEST_F(AcceptorTest, AcceptsAgainAfterTheProcessHadNoDescriptorLeft) {
  std::vector<Socket> clients;
  clients.reserve(3);
  for (int i = 0; i < 3; ++i) clients.push_back(NewClient());
  {
    const AllDescriptors all;
    for (int i = 0; i < 2; ++i) {
      Connect(clients[i], port());
      EXPECT_TRUE(IsClosedByPeer(clients[i]));
    }
  }
  EXPECT_EQ(served_.count(), 0U);
  Connect(clients[2], port());
  served_.WaitFor(1);
}

TEST(Acceptor, EndsWhileClientsWait) {
  const auto listening = ListeningSockets::Listen("127.0.0.1:0");
  ASSERT_TRUE(listening.ok());
  testing::FakeClock clock;
  ConnectionTable table({1, 1, {}}, {}, &clock);
  {
    const Acceptor acceptor(
        listening->sockets(), &table, &clock,
        [](const std::string& /*peer*/) { return absl::OkStatus(); }, [](int fd) { close(fd); });
  }
  const Socket client = NewClient();
  Connect(client, listening->port());
}

}  // namespace
}  // namespace gemmd
