#include "base/text/address.h"

#include "gtest/gtest.h"

namespace gemmd {
namespace {

TEST(Address, AServerListensOnAFreePortAndResolvesNothing) {
  for (const char* address :
       {"127.0.0.1:0", "0.0.0.0:50051", "[::]:0", "localhost:65535", "unix:/run/g"}) {
    EXPECT_TRUE(CheckListenAddress("--listen", address).ok()) << address;
  }
  for (const char* address :
       {"", "localhost", "localhost:99999", "localhost:+5", "localhost:5 ", "dns:///localhost:0",
        ":0", "::1", "fe80::1:50051", "[::1]", "[::1]50051", "[]:5", "unix:", "unix-abstract:"}) {
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
