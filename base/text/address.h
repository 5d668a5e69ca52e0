// Hosts and ports, and what they say of where a server is.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gemmd {

struct HostPort {
  absl::string_view host;  // without brackets
  absl::string_view port;
  bool has_port = false;
};
// "[HOST]:PORT" or "HOST:PORT"; several colons without brackets are an IPv6 address alone.
HostPort SplitHostPort(absl::string_view address);

// Checks an address that a server is to listen on: HOST:PORT, with an IPv6 address in brackets; a
// path after "unix:" or a name after "unix-abstract:". Port 0 takes a free one. INVALID_ARGUMENT
// names the field, its value and what is accepted.
absl::Status CheckListenAddress(absl::string_view field, absl::string_view address);

// Returns whether a host, without brackets, is this one: "localhost" in any case, or an address of
// loopback, in IPv6 too (::1, ::ffff:127.0.0.1). It knows no abbreviation such as 127.1, which may
// be looked up as a name.
bool IsLoopback(absl::string_view host);

// Returns whether what is sent to such an address stays on this host, and only this host can
// connect to it: loopback's, or a Unix socket, with or without a scheme of gRPC's before it.
// Everything that trusts an address because it is local asks here.
bool IsLocalAddress(absl::string_view address);

}  // namespace gemmd
