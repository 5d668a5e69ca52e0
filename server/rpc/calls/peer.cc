#include "server/rpc/calls/peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstddef>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "base/text/address.h"
#include "base/text/network.h"
#include "server/net/forwarded_peers.h"

namespace gemmd {

namespace {

struct Ends {
  absl::string_view client;
  absl::string_view proxy;  // empty: none forwards the connection
};
Ends EndsOf(absl::string_view peer) {
  const std::size_t via = peer.find(ForwardedPeers::kVia);
  if (via == absl::string_view::npos) return {peer, {}};
  return {peer.substr(0, via), peer.substr(via + ForwardedPeers::kVia.size())};
}

}  // namespace

std::string NamedPeer(std::string peer) {
  ForwardedPeers& forwarded = ForwardedPeers::Get();
  if (!forwarded.has_proxies()) return peer;
  const std::string address = AddressOf(peer);
  const std::string endpoint = EndpointOf(peer);
  return forwarded.Name(std::move(peer), address, endpoint);
}

std::string AddressOf(absl::string_view peer) {
  peer = EndsOf(peer).client;
  if (absl::ConsumePrefix(&peer, "ipv4:")) return std::string(peer.substr(0, peer.rfind(':')));
  if (absl::StartsWith(peer, "unix")) return "unix";  // whatever name the client gave its end
  if (!absl::ConsumePrefix(&peer, "ipv6:")) return std::string(peer.substr(0, peer.find(':')));
  std::string host(peer.substr(0, peer.rfind(':')));
  absl::StrReplaceAll({{"%5B", ""}, {"%5D", ""}, {"[", ""}, {"]", ""}}, &host);
  in6_addr address{};
  if (inet_pton(AF_INET6, host.substr(0, host.find('%')).c_str(), &address) != 1) return host;
  return NetworkText(address);
}

std::string EndpointOf(absl::string_view peer) {
  if (const absl::string_view proxy = EndsOf(peer).proxy; !proxy.empty()) return std::string(proxy);
  return ClientOf(peer);
}

std::string ClientOf(absl::string_view peer) {
  peer = EndsOf(peer).client;
  if (absl::ConsumePrefix(&peer, "ipv4:")) return std::string(peer);
  if (!absl::ConsumePrefix(&peer, "ipv6:")) return "unix";
  // Its brackets are escaped, and so is the sign before a link-local address's zone.
  std::string endpoint = absl::StrReplaceAll(peer, {{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}});
  if (const std::size_t zone = endpoint.find('%'); zone != std::string::npos) {
    endpoint.erase(zone, endpoint.find(']') - zone);
  }
  return endpoint;
}

bool IsLocalPeer(absl::string_view peer) {
  // gRPC writes an IPv6 address as a URI does, with its brackets escaped. A peer has an address: a
  // name, or several, would be somebody's invention. A proxy's loopback is not the server's.
  if (!EndsOf(peer).proxy.empty()) return false;
  const bool has_address = absl::StartsWith(peer, "ipv4:") || absl::StartsWith(peer, "ipv6:") ||
                           absl::StartsWith(peer, "unix");
  if (!has_address) return false;
  return IsLocalAddress(absl::StrReplaceAll(peer, {{"%5B", "["}, {"%5D", "]"}}));
}

absl::Status CheckSharesMemory(absl::string_view peer) {
  if (IsLocalPeer(peer)) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("shared memory is for clients on the server's host, and you are ",
                   EndsOf(peer).client, ": connect over a loopback address or a Unix socket"));
}

}  // namespace gemmd
