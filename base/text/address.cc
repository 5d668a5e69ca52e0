#include "base/text/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace gemmd {
namespace {

constexpr std::int64_t kMaxPort = 65535;

bool IsPort(absl::string_view text) {
  std::int64_t port = 0;
  return !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit) &&
         absl::SimpleAtoi(text, &port) && port <= kMaxPort;
}

absl::Status Refuse(absl::string_view field, absl::string_view address, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(field, " is \"", address, "\", ", why,
                                                 "; it must be HOST:PORT, with a port of 0 to ",
                                                 kMaxPort));
}

}  // namespace

HostPort SplitHostPort(absl::string_view address) {
  const std::size_t bracket =
      absl::StartsWith(address, "[") ? address.find(']') : absl::string_view::npos;
  if (bracket != absl::string_view::npos) {
    const absl::string_view rest = address.substr(bracket + 1);
    if (!absl::StartsWith(rest, ":")) return {address.substr(1, bracket - 1), {}, false};
    return {address.substr(1, bracket - 1), rest.substr(1), true};
  }
  const std::size_t colon = address.find(':');
  if (colon == absl::string_view::npos || colon != address.rfind(':')) return {address, {}, false};
  return {address.substr(0, colon), address.substr(colon + 1), true};
}

absl::Status CheckListenAddress(absl::string_view field, absl::string_view address) {
  if (address.empty()) return Refuse(field, address, "which names no server");
  for (const char* scheme : {"unix:", "unix-abstract:"}) {
    absl::string_view rest = address;
    if (!absl::ConsumePrefix(&rest, scheme)) continue;
    if (!rest.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(field, " is \"", address, "\"; after ", scheme, " it must name a socket"));
  }
  const HostPort parts = SplitHostPort(address);
  if (parts.host.empty()) return Refuse(field, address, "which names no host");
  if (!parts.has_port && absl::StrContains(parts.host, ':') && parts.host == address) {
    return Refuse(field, address, "whose colons are an IPv6 address's until it has brackets");
  }
  if (!parts.has_port) return Refuse(field, address, "which has no port");
  if (IsPort(parts.port)) return absl::OkStatus();
  return Refuse(field, address, absl::StrCat("whose port is \"", parts.port, "\""));
}

bool IsLoopback(absl::string_view host) {
  if (absl::EqualsIgnoreCase(host, "localhost")) return true;
  constexpr std::uint8_t kNetwork = 127;
  const std::string text(host);
  in_addr v4{};
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == kNetwork;
  in6_addr v6{};
  if (inet_pton(AF_INET6, text.c_str(), &v6) != 1) return false;
  // The last four bytes of a mapped IPv6 address are the IPv4 address.
  return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == kNetwork);
}

bool IsLocalAddress(absl::string_view address) {
  if (absl::StartsWith(address, "unix:") || absl::StartsWith(address, "unix-abstract:")) {
    return true;
  }
  if (absl::ConsumePrefix(&address, "ipv4:") || absl::ConsumePrefix(&address, "ipv6:")) {
    const std::vector<absl::string_view> list = absl::StrSplit(address, ',');
    const auto is_local = [](absl::string_view each) {
      return IsLoopback(SplitHostPort(each).host);
    };
    return std::all_of(list.begin(), list.end(), is_local);
  }
  // With an authority, a name server decides where even "localhost" is.
  if (absl::ConsumePrefix(&address, "dns:")) absl::ConsumePrefix(&address, "///");
  return IsLoopback(SplitHostPort(address).host);
}

}  // namespace gemmd
