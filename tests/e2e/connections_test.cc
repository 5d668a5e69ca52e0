// One client's connections cost another nothing.
#include <sys/resource.h>

#include <cstdlib>
#include <string>
#include <vector>

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

}  // namespace
}  // namespace gemmd
