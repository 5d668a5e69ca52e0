#include "server/net/proxy_header.h"

#include <cstddef>
#include <string>

#include "gtest/gtest.h"
#include "server/net/connection_table.h"

namespace gemmd {
namespace {

const std::string kSignature("\r\n\r\n\0\r\nQUIT\n", 12);

// Version 2: command and version, family and protocol, and what follows.
std::string Binary(int command, int family, const std::string& rest) {
  return kSignature + static_cast<char>(command) + static_cast<char>(family) +
         static_cast<char>(rest.size() / 256) + static_cast<char>(rest.size() % 256) + rest;
}

const std::string kV4("\x0a\0\0\x09\x0a\0\0\x02\x12\x67\x01\xbb", 12);
const std::string kV6 = "\x20\x01\x0d\xb8" + std::string(11, '\0') + "\x09" +
                        std::string(16, '\1') + "\x12\x67\x01\xbb";

// The client that a whole header names; "" where it names none; else what is wrong.
std::string Read(const std::string& text) {
  const absl::StatusOr<ProxyHeader> header = ReadProxyHeader(text);
  if (!header.ok()) return std::string(header.status().message());
  if (header->missing != 0) return "missing";
  return header->client.ss_family == AF_UNSPEC ? "" : EndpointOf(header->client);
}

TEST(ProxyHeader, NamesTheClient) {
  EXPECT_EQ(Read("PROXY TCP4 10.0.0.9 10.0.0.2 4711 443\r\n"), "10.0.0.9:4711");
  EXPECT_EQ(Read("PROXY TCP6 2001:db8::9 ::1 4711 443\r\n"), "[2001:db8::9]:4711");
  EXPECT_EQ(Read("PROXY TCP6 ::ffff:10.0.0.9 ::1 4711 443\r\n"), "10.0.0.9:4711");
  EXPECT_EQ(Read(Binary(0x21, 0x11, kV4)), "10.0.0.9:4711");
  EXPECT_EQ(Read(Binary(0x21, 0x21, kV6)), "[2001:db8::9]:4711");
  // More may follow, as HAProxy's certificates do.
  EXPECT_EQ(Read(Binary(0x21, 0x11, kV4 + std::string(2020, 'x'))), "10.0.0.9:4711");
}

TEST(ProxyHeader, MayNameNone) {
  EXPECT_EQ(Read("PROXY UNKNOWN\r\n"), "");
  EXPECT_EQ(Read("PROXY UNKNOWN ffff::1 whatever 1 2\r\n"), "");
  EXPECT_EQ(Read(Binary(0x20, 0x11, kV4)), "") << "the proxy's own connection";
  EXPECT_EQ(Read(Binary(0x20, 0, "")), "");
  EXPECT_EQ(Read(Binary(0x21, 0, "")), "");
  EXPECT_EQ(Read(Binary(0x21, 0x31, std::string(216, '/'))), "");
}

// A reader that takes as many bytes as are missing ends with the header, and has none behind it.
TEST(ProxyHeader, SaysHowMuchMustStillCome) {
  for (const std::string& whole :
       {std::string("PROXY TCP4 10.0.0.9 10.0.0.2 4711 443\r\n"), std::string("PROXY UNKNOWN\r\n"),
        Binary(0x21, 0x11, kV4), Binary(0x21, 0x21, kV6 + std::string(300, 'x'))}) {
    std::size_t begun = 0;
    while (true) {
      const absl::StatusOr<ProxyHeader> header = ReadProxyHeader(whole.substr(0, begun));
      ASSERT_TRUE(header.ok()) << header.status();
      if (header->missing == 0) break;
      begun += header->missing;
      ASSERT_LE(begun, whole.size());
    }
    EXPECT_EQ(begun, whole.size());
    for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
      EXPECT_EQ(Read(whole.substr(0, bytes)), "missing") << bytes;
    }
  }
}

TEST(ProxyHeader, RefusesWhatIsNone) {
  const std::string before = "the header of the PROXY protocol ";
  EXPECT_EQ(Read("PRI * HTTP/2.0"), before +
                                        "begins with \"PRI * HTTP/2\", and must with \"PROXY \" or "
                                        "\"\\r\\n\\r\\n\\x00\\r\\nQUIT\\n\"");
  EXPECT_EQ(Read("\x16\x03\x01").substr(0, before.size() + 6), before + "begins");
  EXPECT_EQ(Read(Binary(0x11, 0x11, kV4)),
            before + "has version and command 17; they must be 32 or 33");
  EXPECT_EQ(Read(Binary(0x22, 0x11, kV4)),
            before + "has version and command 34; they must be 32 or 33");
  EXPECT_EQ(Read(Binary(0x21, 0x12, kV4)),
            before + "has address family and protocol 18; they must be 0, 17, 33 or 49");
  EXPECT_EQ(Read(Binary(0x21, 0x11, kV4.substr(1))),
            before + "has 11 bytes of addresses; it must be 12");
  EXPECT_EQ(Read(Binary(0x21, 0x21, kV4)), before + "has 12 bytes of addresses; it must be 36");
  // Before the rest has come.
  EXPECT_EQ(Read(Binary(0x21, 0x11, std::string(2033, 'x')).substr(0, 16)),
            before + "has 2049 bytes, and the limit is 2048");
  EXPECT_EQ(Read("PROXY TCP4 " + std::string(96, '1')),
            before + "has a line of more than 107 bytes");
}

TEST(ProxyHeader, RefusesLinesThatAreAlmostRight) {
  for (const char* line :
       {"TCP4 10.0.0.9 10.0.0.2 4711", "TCP4 10.0.0.9 10.0.0.2 4711 443 1",
        "TCP4 10.0.0.9  10.0.0.2 4711 443", "TCP4 10.0.0.9 10.0.0.2 65536 443",
        "TCP4 10.0.0.9 10.0.0.2 -1 443", "TCP4 10.0.0.9 10.0.0.2 +1 443",
        "TCP4 10.0.0.9 10.0.0.2 04711 443", "TCP4 10.0.0.9 10.0.0.2 4711 ",
        "TCP4 10.0.9 10.0.0.2 4711 443", "TCP4 ::1 ::1 4711 443", "TCP6 10.0.0.9 10.0.0.2 4711 443",
        "TCP5 10.0.0.9 10.0.0.2 4711 443", "tcp4 10.0.0.9 10.0.0.2 4711 443",
        " TCP4 10.0.0.9 10.0.0.2 4711 443", "UNKNOWNS "}) {
    EXPECT_NE(Read(std::string("PROXY ") + line + "\r\n").find("it must be PROXY, TCP4 or TCP6"),
              std::string::npos)
        << line;
  }
}

}  // namespace
}  // namespace gemmd
