#include "server/rpc/calls/peer.h"

#include <utility>

#include "gtest/gtest.h"
#include "server/net/forwarded_peers.h"

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

TEST(ForwardedPeer, IsTheClientWhoIsOnNoHostOfTheServers) {
  const char* const peer = "ipv4:10.0.0.9:4711 via 127.0.0.1:5000";
  EXPECT_EQ(AddressOf(peer), "10.0.0.9");
  EXPECT_EQ(ClientOf(peer), "10.0.0.9:4711");
  EXPECT_EQ(EndpointOf(peer), "127.0.0.1:5000") << "its connection";
  const char* const v6 = "ipv6:[2001:db8::9]:4711 via [::1]:5000";
  EXPECT_EQ(AddressOf(v6), "2001:db8::/64");
  EXPECT_EQ(ClientOf(v6), "[2001:db8::9]:4711");
  EXPECT_EQ(EndpointOf(v6), "[::1]:5000");
  EXPECT_FALSE(IsLocalPeer("ipv4:127.0.0.1:4711 via 127.0.0.1:5000"));
  EXPECT_EQ(CheckSharesMemory("ipv4:127.0.0.1:4711 via 127.0.0.1:5000").message(),
            "shared memory is for clients on the server's host, and you are ipv4:127.0.0.1:4711: "
            "connect over a loopback address or a Unix socket");
}

TEST(ForwardedPeer, HasItsClientsNameAsLongAsItsConnectionIsKnown) {
  ForwardedPeers& forwarded = ForwardedPeers::Get();
  EXPECT_EQ(NamedPeer("ipv4:10.0.0.2:5000"), "ipv4:10.0.0.2:5000");
  forwarded.SetProxies({"10.0.0.2", "2001:db8::/64"});
  {
    ForwardedPeers::Entry entry = forwarded.Add("10.0.0.2:5000", "[::1]:4711");
    EXPECT_EQ(NamedPeer("ipv4:10.0.0.2:5000"), "ipv6:[::1]:4711 via 10.0.0.2:5000");
    EXPECT_EQ(NamedPeer("ipv4:10.0.0.2:5001"), "ipv4:10.0.0.2:5001 via 10.0.0.2:5001");
    EXPECT_EQ(NamedPeer("ipv4:10.0.0.3:5000"), "ipv4:10.0.0.3:5000");
    const ForwardedPeers::Entry moved = std::move(entry);
    // The proxy's port is used again before the first connection's end was seen.
    ForwardedPeers::Entry next = forwarded.Add("10.0.0.2:5000", "10.0.0.9:4711");
    { const ForwardedPeers::Entry gone = forwarded.Add("[2001:db8::2]:1", "10.0.0.9:1"); }
    EXPECT_EQ(NamedPeer("ipv6:%5B2001:db8::2%5D:1"),
              "ipv6:%5B2001:db8::2%5D:1 via [2001:db8::2]:1");
    entry = ForwardedPeers::Entry();
    EXPECT_EQ(NamedPeer("ipv4:10.0.0.2:5000"), "ipv4:10.0.0.9:4711 via 10.0.0.2:5000");
  }
  // Not a local one where the connection has ended: else a client could be that by leaving.
  EXPECT_EQ(NamedPeer("ipv4:10.0.0.2:5000"), "ipv4:10.0.0.2:5000 via 10.0.0.2:5000");
  forwarded.SetProxies({});
}

}  // namespace
}  // namespace gemmd
