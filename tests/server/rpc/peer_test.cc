#include "server/rpc/calls/peer.h"

#include "gtest/gtest.h"

namespace gemmd {
namespace {

TEST(AddressOf, IsWithoutAPort) {
  EXPECT_EQ(AddressOf("ipv4:10.1.2.3:4711"), "10.1.2.3");
  EXPECT_EQ(AddressOf("unix:"), "unix");
  EXPECT_EQ(AddressOf("unix:/run/gemmd.sock"), "unix");
  EXPECT_EQ(AddressOf(""), "");
}

TEST(AddressOf, IsANetworkOf64BitsWhereAHostMayHaveThemAll) {
  EXPECT_EQ(AddressOf("ipv6:%5B2001:db8:1:2:3:4:5:6%5D:4711"), "2001:db8:1:2::/64");
  EXPECT_EQ(AddressOf("ipv6:[2001:db8:1:2::9]:4711"), "2001:db8:1:2::/64");
  EXPECT_EQ(AddressOf("ipv6:%5Bfe80::1%25eth0%5D:4711"), "fe80::/64");
}

TEST(AddressOf, IsThatOfIpv4WhereIpv6WrapsIt) {
  EXPECT_EQ(AddressOf("ipv6:%5B::ffff:10.1.2.3%5D:4711"), "10.1.2.3");
}

TEST(IsLocalPeer, IsLoopbackInEveryFormOrAUnixSocket) {
  for (const char* peer :
       {"ipv4:127.0.0.1:4711", "ipv4:127.9.8.7:1", "ipv6:%5B::1%5D:4711", "ipv6:[::1]:4711",
        "ipv6:%5B::ffff:127.0.0.1%5D:4711", "ipv6:[::ffff:127.0.0.1]:4711",
        "unix:", "unix:/run/gemmd.sock", "unix-abstract:g"}) {
    EXPECT_TRUE(IsLocalPeer(peer)) << peer;
  }
  for (const char* peer :
       {"ipv4:10.127.0.1:4711", "ipv4:1.2.3.4:127", "ipv6:%5B::ffff:10.0.0.1%5D:4711",
        "ipv6:%5Bfe80::1%25lo%5D:4711", "ipv6:%5B::2%5D:1", "localhost:1", "127.0.0.1:1",
        "dns:localhost", "unknown", ""}) {
    EXPECT_FALSE(IsLocalPeer(peer)) << peer;
  }
}

}  // namespace
}  // namespace gemmd
