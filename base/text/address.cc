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

bool IsPort(absl::string_view text, std::int64_t least) {
  std::int64_t port = 0;
  return !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit) &&
         absl::SimpleAtoi(text, &port) && port >= least && port <= kMaxPort;
}

absl::Status Refuse(absl::string_view field, absl::string_view address, absl::string_view why,
                    std::int64_t least_port) {
  return absl::InvalidArgumentError(absl::StrCat(field, " is \"", address, "\", ", why,
                                                 "; it must be HOST:PORT, with a port of ",
                                                 least_port, " to ", kMaxPort));
}

absl::Status Check(absl::string_view field, absl::string_view address, std::int64_t least_port,
                   bool resolves) {
  if (address.empty()) return Refuse(field, address, "which names no server", least_port);
  for (const char* scheme : {"unix:", "unix-abstract:"}) {
    absl::string_view rest = address;
    if (!absl::ConsumePrefix(&rest, scheme)) continue;
    if (!rest.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(field, " is \"", address, "\"; after ", scheme, " it must name a socket"));
  }
  absl::string_view rest = address;
  bool port_may_be_missing = false;
  if (resolves && absl::ConsumePrefix(&rest, "dns:")) {
    port_may_be_missing = true;
    if (absl::ConsumePrefix(&rest, "//")) {  // the authority, which may be empty
      const std::size_t slash = rest.find('/');
      rest = slash == absl::string_view::npos ? absl::string_view() : rest.substr(slash + 1);
    }
  } else if (resolves &&
             (absl::StartsWith(address, "ipv4:") || absl::StartsWith(address, "ipv6:") ||
              absl::StrContains(address, "://"))) {
    return absl::OkStatus();  // lists and schemes that gRPC itself knows
  }
  const HostPort parts = SplitHostPort(rest);
  if (parts.host.empty()) return Refuse(field, address, "which names no host", least_port);
  if (!parts.has_port && absl::StrContains(parts.host, ':') && parts.host == rest) {
    return Refuse(field, address, "whose colons are an IPv6 address's until it has brackets",
                  least_port);
  }
  if (!parts.has_port) {
    if (port_may_be_missing) return absl::OkStatus();
    return Refuse(field, address, "which has no port", least_port);
  }
  if (IsPort(parts.port, least_port)) return absl::OkStatus();
  return Refuse(field, address, absl::StrCat("whose port is \"", parts.port, "\""), least_port);
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

absl::Status CheckServerAddress(absl::string_view field, absl::string_view address) {
  return Check(field, address, 1, true);
}

absl::Status CheckListenAddress(absl::string_view field, absl::string_view address) {
  return Check(field, address, 0, false);
}

bool IsLoopback(absl::string_view host) {
  if (absl::EqualsIgnoreCase(host, "localhost")) return true;
  constexpr std::uint8_t kNetwork = 127;
  const std::string text(host);
  in_addr v4{};
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == kNetwork;
  in6_addr v6{};
  if (inet_pton(AF_INET6, text.c_str(), &v6) != 1) return false;
  // Of an IPv4 address in an IPv6 one, the last four bytes are the address.
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
