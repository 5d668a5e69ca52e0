#include "client/fleet/resolve.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"

namespace gemmd::client {
namespace {

std::string TextOf(const sockaddr& address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.sa_family == AF_INET) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(address);
    return inet_ntop(AF_INET, &in.sin_addr, text, sizeof(text));
  }
  const auto& in = reinterpret_cast<const sockaddr_in6&>(address);
  return absl::StrCat("[", inet_ntop(AF_INET6, &in.sin6_addr, text, sizeof(text)), "]");
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ResolveByHost(const NameAndPort& name) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(name.name.c_str(), nullptr, &hints, &found); error != 0) {
    return absl::UnavailableError(
        absl::StrCat("DNS resolution failed for ", name.name, ": ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  std::vector<std::string> targets;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
      if (each->ai_family != family) continue;
      targets.push_back(absl::StrCat(TextOf(*each->ai_addr), ":", name.port));
    }
    if (!targets.empty()) break;
  }
  // So that a name whose addresses come in another order each time is the same list.
  std::sort(targets.begin(), targets.end());
  targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
  return targets;
}

}  // namespace gemmd::client
