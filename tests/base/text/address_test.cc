#include "base/text/address.h"

#include <string>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace gemmd {
namespace {

TEST(Address, TakesWhatNamesAServer) {
  for (const char* address :
       {"127.0.0.1:50051", "gpu-node:1", "gpu-node:65535", "[::1]:50051", "[::]:9", "unix:/run/g",
        "unix:///run/g", "unix:g.sock", "unix-abstract:g", "dns:///gpu-node:50051", "dns:gpu:50051",
        "dns://8.8.8.8/gpu-node:50051", "dns:///gpu-node", "ipv4:10.0.0.1:5,10.0.0.2:5",
        "ipv6:[::1]:5", "xds:///gemmd"}) {
    EXPECT_TRUE(CheckServerAddress("--server", address).ok())
        << CheckServerAddress("--server", address);
  }
}

TEST(Address, RefusesWhatLeavesThePortOpenOrOutOfRange) {
  for (const char* address : {"",
                              "gpu-node",
                              "127.0.0.1",
                              "gpu-node:",
                              "gpu-node:0",
                              "gpu-node:65536",
                              "gpu-node:99999",
                              "gpu-node:http",
                              "gpu-node:+5",
                              "gpu-node:-5",
                              "gpu-node: 5",
                              "gpu-node:5 ",
                              ":50051",
                              "::1",
                              "fe80::1:50051",
                              "[::1]",
                              "[::1]50051",
                              "[]:5",
                              "unix:",
                              "unix-abstract:",
                              "dns:",
                              "dns:///",
                              "dns:///gpu-node:99999",
                              "gpu-node:99999999999999999999999"}) {
    EXPECT_FALSE(CheckServerAddress("--server", address).ok()) << address;
  }
}

TEST(Address, ErrorsNameFieldValueAndLimit) {
  EXPECT_EQ(
      CheckServerAddress("--server", "gpu-node").message(),
      "--server is \"gpu-node\", which has no port; it must be HOST:PORT, with a port of 1 to "
      "65535");
  EXPECT_EQ(
      CheckServerAddress("--server", "a:99999").message(),
      "--server is \"a:99999\", whose port is \"99999\"; it must be HOST:PORT, with a port of "
      "1 to 65535");
  EXPECT_TRUE(absl::StrContains(CheckServerAddress("--server", "").message(), "--server is \"\""));
}

TEST(Address, AServerListensOnAFreePortAndResolvesNothing) {
  for (const char* address :
       {"127.0.0.1:0", "0.0.0.0:50051", "[::]:0", "localhost:0", "unix:/run/g"}) {
    EXPECT_TRUE(CheckListenAddress("--listen", address).ok()) << address;
  }
  for (const char* address : {"", "localhost", "localhost:99999", "dns:///localhost:0", ":0"}) {
    EXPECT_FALSE(CheckListenAddress("--listen", address).ok()) << address;
  }
}

TEST(Address, IsLocalWhereOnlyThisHostCanConnect) {
  for (const char* address :
       {"127.0.0.1:0", "127.9.9.9:1", "[::1]:1", "localhost:1", "LocalHost:1", "unix:/run/g",
        "unix:///run/g", "unix-abstract:g", "[::ffff:127.0.0.1]:1", "[::ffff:7f00:1]:1",
        "dns:127.0.0.1:1", "dns:localhost", "dns:///localhost:1", "dns:///[::1]:1",
        "ipv4:127.0.0.1:1", "ipv4:127.0.0.1:1,127.0.0.2:1", "ipv6:[::1]:1",
        "ipv6:[::1]:1,[::ffff:127.0.0.1]:2"}) {
    EXPECT_TRUE(IsLocalAddress(address)) << address;
  }
  for (const char* address : {"0.0.0.0:1",
                              "[::]:1",
                              "10.127.0.1:1",
                              "[::ffff:10.0.0.1]:1",
                              "localhost.example.org:1",
                              "127.example.org:1",
                              "example.org:1",
                              "127.1:1",
                              "0x7f000001:1",
                              "2130706433:1",
                              "[::127.0.0.1]:1",
                              "dns:///example.org:1",
                              "dns://8.8.8.8/localhost:1",
                              "dns:example.org:1",
                              "ipv4:10.0.0.1:1",
                              "ipv4:127.0.0.1:1,10.0.0.1:1",
                              "ipv4:",
                              "ipv6:[::2]:1",
                              "xds:///localhost:1",
                              ""}) {
    EXPECT_FALSE(IsLocalAddress(address)) << address;
  }
}

}  // namespace
}  // namespace gemmd
