// One client's connections cost another nothing.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "grpcpp/create_channel_posix.h"
#include "gtest/gtest.h"
#include "tests/server/net/sockets.h"
#include "tests/testing/raw_call.h"
#include "tests/testing/server_process.h"

namespace gemmd {
namespace {

using testing::Connect;
using testing::NewClient;
using testing::Socket;

int PortOf(const testing::ServerProcess& server) {
  return std::atoi(server.address().substr(server.address().rfind(':') + 1).c_str());
}

// Asks over a connection of its own.
grpc::Status Ask(const testing::ServerProcess& server) {
  return testing::RawUnaryCall(server.NewChannel(), "/grpc.health.v1.Health/Check", "").status;
}

TEST(Connections, OfOneAddressLeaveRoomForOthers) {
  testing::ServerProcess server({"--limits.connections=40", "--limits.connections-per-peer=20"});
  std::vector<Socket> silent;
  int refused = 0;
  for (int i = 0; i < 60; ++i) {
    silent.push_back(NewClient());
    Connect(silent.back(), PortOf(server), 2);
  }
  for (int i = 20; i < 60; ++i) refused += testing::IsClosedByPeer(silent[i]);
  EXPECT_EQ(refused, 40);
  const grpc::Status polite = Ask(server);
  EXPECT_TRUE(polite.ok()) << polite.error_message();
  server.Signal(SIGTERM);
  EXPECT_EQ(server.WaitForExit(), 0);
  EXPECT_NE(
      server.log().find("the share of address 127.0.0.2 of open connections is 20, 20 are taken"),
      std::string::npos)
      << server.log();
}

// gRPC's own listener would be deaf from then on (CVE-2023-4785).
TEST(Connections, AreAcceptedAgainAfterDescriptorsRanOut) {
  const testing::ServerProcess server;
  const rlimit few = {80, 80};
  ASSERT_EQ(prlimit(server.pid(), RLIMIT_NOFILE, &few, nullptr), 0);
  {
    std::vector<Socket> silent;
    for (int i = 0; i < 100; ++i) {
      silent.push_back(NewClient());
      Connect(silent.back(), PortOf(server), 2);
    }
    EXPECT_TRUE(testing::IsClosedByPeer(silent.back()));
  }
  // Descriptors come back as gRPC sees that those connections have ended.
  grpc::Status polite = Ask(server);
  for (int i = 0; i < 1000 && !polite.ok(); ++i) polite = Ask(server);
  EXPECT_TRUE(polite.ok()) << polite.error_message();
}

// A connection of a proxy on this host, which says that it is that client's.
std::shared_ptr<grpc::Channel> Forwarded(const testing::ServerProcess& server,
                                         const std::string& client) {
  const Socket proxy = NewClient();
  Connect(proxy, PortOf(server));
  const std::string header = "PROXY TCP4 " + client + " 10.0.0.2 4711 443\r\n";
  EXPECT_EQ(send(proxy.fd(), header.data(), header.size(), 0), static_cast<ssize_t>(header.size()));
  const int fd = fcntl(proxy.fd(), F_DUPFD_CLOEXEC, 0);
  fcntl(fd, F_SETFL, O_NONBLOCK);
  return grpc::CreateInsecureChannelFromFd("", fd);
}

grpc::Status Register(const std::shared_ptr<grpc::Channel>& channel) {
  return testing::RawUnaryCall(channel, "/gemmd.v1.Regions/Register", "").status;
}

TEST(ForwardedConnections, AreTheirClients) {
  testing::ServerProcess server({"--limits.proxy-protocol=127.0.0.1",
                                 "--limits.connections-per-peer=2",
                                 "--shared-memory.name-prefix=gemmd-test-"});
  const auto one = Forwarded(server, "10.0.0.9");
  const auto two = Forwarded(server, "10.0.0.9");
  const auto other = Forwarded(server, "127.0.0.1");
  // A call each, because the server has to have seen them.
  EXPECT_EQ(Register(one).error_message(),
            "shared memory is for clients on the server's host, and you are ipv4:10.0.0.9:4711: "
            "connect over a loopback address or a Unix socket");
  EXPECT_EQ(Register(two).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(Register(other).error_code(), grpc::StatusCode::PERMISSION_DENIED)
      << "it is on the proxy's host, which may be another";
  EXPECT_EQ(Register(Forwarded(server, "10.0.0.9")).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(Register(Forwarded(server, "10.0.0.8")).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(Register(Forwarded(server, "10.0.0")).error_code(), grpc::StatusCode::UNAVAILABLE);
  server.Signal(SIGTERM);
  EXPECT_EQ(server.WaitForExit(), 0);
  EXPECT_NE(server.log().find("the share of address 10.0.0.9 of open connections is 2"),
            std::string::npos)
      << server.log();
}

}  // namespace
}  // namespace gemmd
