// Peers as gRPC names them, and of forwarded connections as ForwardedPeers does.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gemmd {

// Takes a peer as gRPC names it.
std::string NamedPeer(std::string peer);

// The address by which peers are limited: of "ipv4:10.0.0.1:4711" the IPv4 address, of
// "ipv6:%5B2001:db8::1%5D:4711" its /64 network, else "unix".
std::string AddressOf(absl::string_view peer);

// The peer's end of its connection, as EndpointOf() the connection's descriptor gives it:
// "10.0.0.1:4711", "[2001:db8::1]:4711" or "unix". A forwarded connection's is the proxy's end.
std::string EndpointOf(absl::string_view peer);

// The client's end of a forwarded connection; else EndpointOf(). Two clients of two proxies may
// have one.
std::string ClientOf(absl::string_view peer);

// Returns whether a peer is on this host: a loopback address or a Unix socket, without a proxy.
bool IsLocalPeer(absl::string_view peer);

// PERMISSION_DENIED: the peer is on another host, and so shares no memory with this one.
absl::Status CheckSharesMemory(absl::string_view peer);

}  // namespace gemmd
