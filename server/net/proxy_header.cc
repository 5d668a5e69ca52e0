#include "server/net/proxy_header.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace gemmd {
namespace {

constexpr absl::string_view kSignature("\r\n\r\n\0\r\nQUIT\n", 12);
constexpr std::size_t kFixedBytes = 16;  // of version 2, with the length of the rest
constexpr absl::string_view kFirstWord = "PROXY ";
constexpr std::size_t kMostLineBytes = 107;
// The shortest header is "PROXY UNKNOWN" and the line's end.
static_assert(kSignature.size() < 15);

absl::Status Error(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("the header of the PROXY protocol ", what));
}

ProxyHeader Missing(std::size_t bytes) {
  ProxyHeader header;
  header.missing = bytes;
  return header;
}

unsigned ByteAt(absl::string_view bytes, std::size_t at) {
  return static_cast<unsigned char>(bytes[at]);
}

// The client's address and port, as they are on the wire.
sockaddr_storage ClientOf(int family, const char* address, const char* port) {
  sockaddr_storage client{};
  client.ss_family = static_cast<sa_family_t>(family);
  if (family == AF_INET) {
    auto* const v4 = reinterpret_cast<sockaddr_in*>(&client);
    std::memcpy(&v4->sin_addr, address, sizeof v4->sin_addr);
    std::memcpy(&v4->sin_port, port, sizeof v4->sin_port);
  } else {
    auto* const v6 = reinterpret_cast<sockaddr_in6*>(&client);
    std::memcpy(&v6->sin6_addr, address, sizeof v6->sin6_addr);
    std::memcpy(&v6->sin6_port, port, sizeof v6->sin6_port);
  }
  return client;
}

absl::StatusOr<ProxyHeader> ReadBinary(absl::string_view begun) {
  if (begun.size() < kFixedBytes) return Missing(kFixedBytes - begun.size());
  constexpr unsigned kLocal = 0x20;
  constexpr unsigned kProxied = 0x21;
  const unsigned command = ByteAt(begun, 12);
  if (command != kLocal && command != kProxied) {
    return Error(absl::StrCat("has version and command ", command, "; they must be 32 or 33"));
  }
  const std::size_t rest = ByteAt(begun, 14) * 256 + ByteAt(begun, 15);
  if (rest > kMostProxyHeaderBytes - kFixedBytes) {
    return Error(absl::StrCat("has ", kFixedBytes + rest, " bytes, and the limit is ",
                              kMostProxyHeaderBytes));
  }
  if (begun.size() < kFixedBytes + rest) return Missing(kFixedBytes + rest - begun.size());
  if (command == kLocal) return ProxyHeader();
  // Source, destination, source's port, destination's port; what a later version adds follows.
  constexpr unsigned kUnspecified = 0x00;
  constexpr unsigned kTcp4 = 0x11;
  constexpr unsigned kTcp6 = 0x21;
  constexpr unsigned kUnix = 0x31;
  const unsigned family = ByteAt(begun, 13);
  if (family == kUnspecified || family == kUnix) return ProxyHeader();
  if (family != kTcp4 && family != kTcp6) {
    return Error(
        absl::StrCat("has address family and protocol ", family, "; they must be 0, 17, 33 or 49"));
  }
  const std::size_t bytes = family == kTcp4 ? sizeof(in_addr) : sizeof(in6_addr);
  if (rest < 2 * (bytes + 2)) {
    return Error(absl::StrCat("has ", rest, " bytes of addresses; it must be ", 2 * (bytes + 2)));
  }
  const char* const addresses = begun.data() + kFixedBytes;
  ProxyHeader header;
  header.client = ClientOf(family == kTcp4 ? AF_INET : AF_INET6, addresses, addresses + 2 * bytes);
  return header;
}

// Digits alone, without a zero before them.
bool ReadPort(absl::string_view text, std::uint16_t* port) {
  constexpr int kMost = 65535;
  int number = 0;
  if (!absl::SimpleAtoi(text, &number) || number < 0 || number > kMost) return false;
  *port = htons(static_cast<std::uint16_t>(number));
  return absl::StrCat(number) == text;
}

absl::StatusOr<ProxyHeader> ReadLine(absl::string_view begun) {
  if (!absl::EndsWith(begun, "\r\n")) {
    const std::size_t missing = absl::EndsWith(begun, "\r") ? 1 : 2;
    if (begun.size() + missing <= kMostLineBytes) return Missing(missing);
    return Error(absl::StrCat("has a line of more than ", kMostLineBytes, " bytes"));
  }
  const absl::string_view line =
      begun.substr(kFirstWord.size(), begun.size() - kFirstWord.size() - 2);
  const std::vector<std::string> words = absl::StrSplit(line, ' ');
  if (words.front() == "UNKNOWN") return ProxyHeader();
  const int family = words.front() == "TCP4" ? AF_INET : AF_INET6;
  constexpr std::size_t kWords = 5;
  in6_addr source{};
  in6_addr destination{};
  std::uint16_t port = 0;
  std::uint16_t other = 0;
  if ((family == AF_INET6 && words.front() != "TCP6") || words.size() != kWords ||
      inet_pton(family, words[1].c_str(), &source) != 1 ||
      inet_pton(family, words[2].c_str(), &destination) != 1 || !ReadPort(words[3], &port) ||
      !ReadPort(words[4], &other)) {
    return Error(absl::StrCat("is \"PROXY ", absl::CHexEscape(line),
                              "\"; it must be PROXY, TCP4 or TCP6, two addresses and two ports"));
  }
  ProxyHeader header;
  header.client = ClientOf(family, reinterpret_cast<const char*>(&source),
                           reinterpret_cast<const char*>(&port));
  return header;
}

}  // namespace

absl::StatusOr<ProxyHeader> ReadProxyHeader(absl::string_view begun) {
  const absl::string_view first = begun.substr(0, kSignature.size());
  const bool may_be_binary = absl::StartsWith(kSignature, first);
  const bool may_be_line =
      absl::StartsWith(first, kFirstWord) || absl::StartsWith(kFirstWord, first);
  if (!may_be_binary && !may_be_line) {
    return Error(absl::StrCat("begins with \"", absl::CHexEscape(first), "\", and must with \"",
                              kFirstWord, "\" or \"", absl::CHexEscape(kSignature), "\""));
  }
  if (first.size() < kSignature.size()) return Missing(kSignature.size() - first.size());
  return may_be_binary ? ReadBinary(begun) : ReadLine(begun);
}

}  // namespace gemmd
