#include "server/net/acceptor.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
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
  int port() const { return listening_->port(); }

  testing::FakeClock clock_;
  ConnectionTable table_{{6, 4, {}}, {}, &clock_};
  absl::StatusOr<ListeningSockets> listening_ = ListeningSockets::Listen("127.0.0.1:0");
  Served served_;
  std::atomic<bool> may_connect_{true};
  Acceptor acceptor_{listening_->sockets(), &table_, &clock_,
                     [this](const std::string& peer) {
                       EXPECT_EQ(peer.substr(0, 8), "127.0.0.");
                       return may_connect_ ? absl::OkStatus() : absl::ResourceExhaustedError("no");
                     },
                     [this](int fd) { served_.Take(fd); }};
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
