#include "base/text/server_target.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/text/address.h"
#include "base/text/quoted.h"

namespace gemmd {
namespace {

constexpr int kMaxPort = 65535;

bool IsPort(absl::string_view text) {
  int port = 0;
  return std::all_of(text.begin(), text.end(), absl::ascii_isdigit) &&
         absl::SimpleAtoi(text, &port) && port >= 1 && port <= kMaxPort;
}

// Returns whether `c` may be in a name or in an address in brackets, which may have a zone.
bool IsOfHost(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         absl::string_view("-._:%").find(c) != absl::string_view::npos;
}

// One address after another, and what is wrong with it.
class Reader {
 public:
  Reader(absl::string_view field, absl::string_view address) : field_(field), address_(address) {}

  absl::StatusOr<std::string> Read() const {
    if (address_.empty()) return Refuse("which names no server");
    for (const char* scheme : {"unix:", "unix-abstract:"}) {
      if (!absl::StartsWith(address_, scheme)) continue;
      if (address_ != scheme) return std::string(address_);
      return Refuse(absl::StrCat("which names no socket after ", scheme));
    }
    if (absl::StartsWith(address_, "xds:///")) return std::string(address_);
    for (const char* scheme : {"ipv4:", "ipv6:"}) {
      absl::string_view list = address_;
      if (absl::ConsumePrefix(&list, scheme)) return ReadList(scheme, list);
    }
    absl::string_view rest = address_;
    if (absl::ConsumePrefix(&rest, "dns:")) return ReadDns(rest);
    const std::size_t scheme = address_.find("://");
    if (scheme == absl::string_view::npos) return ReadHostPort(address_);
    return Refuse(
        absl::StrCat("whose ", Quoted(address_.substr(0, scheme + 3)), " is no scheme of gRPC's"));
  }

 private:
  absl::Status Refuse(absl::string_view why) const {
    return absl::InvalidArgumentError(
        absl::StrCat(field_, " is ", Quoted(address_), ", ", why,
                     "; it must be HOST or HOST:PORT, with a port of 1 to ", kMaxPort));
  }

  absl::StatusOr<std::string> ReadHostPort(absl::string_view text) const {
    const HostPort parts = SplitHostPort(text);
    if (parts.host.empty()) return Refuse("which names no host");
    const auto strange = std::find_if_not(parts.host.begin(), parts.host.end(), IsOfHost);
    if (strange != parts.host.end()) {
      return Refuse(absl::StrCat("whose host has ", Quoted(absl::string_view(&*strange, 1))));
    }
    const bool is_bracketed = text[0] == '[';
    if (!is_bracketed && absl::StrContains(parts.host, ':')) {
      return Refuse("whose colons are an IPv6 address's until it has brackets");
    }
    if (parts.has_port) {
      if (IsPort(parts.port)) return std::string(text);
      return Refuse(absl::StrCat("whose port is ", Quoted(parts.port)));
    }
    if (is_bracketed && !absl::EndsWith(text, "]")) return Refuse("which goes on after ]");
    return absl::StrCat(text, ":", kDefaultPort);
  }

  absl::StatusOr<std::string> ReadList(absl::string_view scheme, absl::string_view list) const {
    std::vector<std::string> targets;
    for (const absl::string_view each : absl::StrSplit(list, ',')) {
      const absl::StatusOr<std::string> target = ReadHostPort(each);
      if (!target.ok()) return target.status();
      targets.push_back(*target);
    }
    return absl::StrCat(scheme, absl::StrJoin(targets, ","));
  }

  // dns:HOST, dns:///HOST or dns://NAME_SERVER/HOST.
  absl::StatusOr<std::string> ReadDns(absl::string_view rest) const {
    absl::string_view host = rest;
    if (absl::ConsumePrefix(&host, "//")) {
      const std::size_t slash = host.find('/');
      host = slash == absl::string_view::npos ? "" : host.substr(slash + 1);
    }
    const absl::StatusOr<std::string> target = ReadHostPort(host);
    if (!target.ok()) return target.status();
    return absl::StrCat(address_.substr(0, address_.size() - host.size()), *target);
  }

  const absl::string_view field_;
  const absl::string_view address_;
};

}  // namespace

absl::StatusOr<std::string> ServerTarget(absl::string_view field, absl::string_view address) {
  return Reader(field, address).Read();
}

}  // namespace gemmd
