#include "server/rpc/grpc_log.h"

#include "gtest/gtest.h"

namespace gemmd {
namespace {

TEST(TransportEnd, OfAGoawayHasPeerAndReason) {
  const auto end = ReadTransportEnd(
      "ipv4:127.0.0.1:56442: Sending goaway err=UNKNOWN:too_many_pings "
      "{file:\"./src/core/ext/a.cc\","
      " file_line:1692, http2_error:11}");
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->peer, "ipv4:127.0.0.1:56442");
  EXPECT_EQ(end->why, "too_many_pings");
}

TEST(TransportEnd, OfASilentPeerIsTold) {
  const auto end =
      ReadTransportEnd("ipv6:%5B::1%5D:4711: Keepalive watchdog fired. Closing transport.");
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->peer, "ipv6:%5B::1%5D:4711");
  EXPECT_EQ(end->why, "it did not answer a ping");
}

TEST(TransportEnd, IsNotInOtherLines) {
  for (const char* line :
       {"", "gRPC EXPERIMENT tcp_rcv_lowat OFF (default:OFF)", "Sending goaway"}) {
    EXPECT_FALSE(ReadTransportEnd(line).has_value()) << line;
  }
}

}  // namespace
}  // namespace gemmd
