#include "base/text/network.h"

#include <arpa/inet.h>

#include <string>

#include "gtest/gtest.h"

namespace gemmd {
namespace {

std::string Of(const char* text) {
  in6_addr address{};
  EXPECT_EQ(inet_pton(AF_INET6, text, &address), 1) << text;
  return NetworkText(address);
}

TEST(NetworkText, IsAnIpv4AddressOrHalfAnIpv6Address) {
  in_addr address{};
  ASSERT_EQ(inet_pton(AF_INET, "10.0.0.1", &address), 1);
  EXPECT_EQ(NetworkText(address), "10.0.0.1");
  EXPECT_EQ(Of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
  EXPECT_EQ(Of("2001:db8:1:2::7"), Of("2001:db8:1:2:ffff::"));
  EXPECT_NE(Of("2001:db8:1:3::7"), Of("2001:db8:1:2::7"));
  EXPECT_EQ(Of("::ffff:10.0.0.1"), "10.0.0.1");
}

}  // namespace
}  // namespace gemmd
