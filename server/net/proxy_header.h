// Reads the header of the PROXY protocol, by which a proxy says whose connection it forwards:
// version 1 or 2 (proxy-protocol.txt of HAProxy 2.6). A state machine without sockets.
#pragma once

#include <sys/socket.h>

#include <cstddef>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gemmd {

// HAProxy's have at most some hundred: addresses, and what it says of TLS.
inline constexpr std::size_t kMostProxyHeaderBytes = 2048;

struct ProxyHeader {
  // Bytes that must still come, and perhaps others after these; 0: the header is whole.
  std::size_t missing = 0;
  // The client's end. AF_UNSPEC: the proxy does not say, because the connection is its own, which
  // asks whether the server is there, or the client's is a Unix socket.
  sockaddr_storage client{};
};

// Reads a header's first bytes, without any behind it: whoever receives no more than is missing
// meets none of these. INVALID_ARGUMENT: it is no header, or one beyond kMostProxyHeaderBytes.
absl::StatusOr<ProxyHeader> ReadProxyHeader(absl::string_view begun);

}  // namespace gemmd
