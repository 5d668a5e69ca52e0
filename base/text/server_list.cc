#include "base/text/server_list.h"

#include <arpa/inet.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/text/address.h"
#include "base/text/quoted.h"
#include "base/text/server_target.h"

namespace gemmd {
namespace {

bool IsIpAddress(const std::string& host) {
  unsigned char bytes[sizeof(in6_addr)];
  return inet_pton(AF_INET, host.c_str(), bytes) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

}  // namespace

std::vector<std::string> ServerEntries(absl::string_view list) {
  if (absl::StartsWith(list, "ipv4:") || absl::StartsWith(list, "ipv6:")) {
    return {std::string(list)};
  }
  return absl::StrSplit(list, ',');
}

absl::StatusOr<std::vector<std::string>> ServerTargets(absl::string_view field,
                                                       const std::vector<std::string>& entries) {
  if (entries.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(field, " is empty, which names no server"));
  }
  if (entries.size() > kMostServers) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, " has ", entries.size(), " entries; it must have at most ", kMostServers));
  }
  std::vector<std::string> targets;
  for (const std::string& entry : entries) {
    const std::string which = entries.size() == 1
                                  ? std::string(field)
                                  : absl::StrCat("entry ", targets.size() + 1, " of ", field);
    absl::StatusOr<std::string> target = ServerTarget(which, entry);
    if (!target.ok()) return target.status();
    const auto same = std::find(targets.begin(), targets.end(), *target);
    if (same != targets.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(which, " is ", Quoted(entry), ", which is the server of entry ",
                       same - targets.begin() + 1, "; each must be there once"));
    }
    targets.push_back(*std::move(target));
  }
  return targets;
}

std::optional<NameAndPort> NameOfServers(absl::string_view target) {
  if (!absl::ConsumePrefix(&target, "dns:///")) return std::nullopt;
  const HostPort parts = SplitHostPort(target);
  NameAndPort found{std::string(parts.host), std::string(parts.port)};
  if (IsIpAddress(found.name)) return std::nullopt;
  return found;
}

}  // namespace gemmd
