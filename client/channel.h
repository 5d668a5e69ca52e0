// The options of a client's connection to its server.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "grpcpp/channel.h"

namespace gemmd::client {

// All PEM. Empty root certificates mean the system's. A client certificate and its key
// are given both or not at all.
struct TlsOptions {
  std::string root_certificates;
  std::string client_certificate;
  std::string client_key;
  std::string server_name_override;  // the name to check the server's certificate for
};

struct ChannelOptions {
  std::string target = "127.0.0.1:50051";  // anything gRPC resolves: host:port, dns:///, unix:
  std::optional<TlsOptions> tls;           // plaintext without
  // gRPC lets channels to one target share a connection; true gives this channel one of its own.
  bool own_connection = false;
  // The tenant that each call names: it owns the matrices that the server keeps and shows, unless a
  // token or a client certificate decides who does. Empty: the tenant without a name.
  std::string tenant;
  // While calls are open, a connection over which nothing comes for `keepalive_time` is asked for a
  // sign of life, and given up if none comes within `keepalive_timeout`; TCP gives up then too. A
  // server ends connections that ask more often than it permits (docs/proxies.md).
  absl::Duration keepalive_time = absl::Seconds(20);
  absl::Duration keepalive_timeout = absl::Seconds(20);
  // The bearer token of each call; empty: none. Without TLS whoever is on the way to the server can
  // read it.
  std::string token;
};

// Never fails and does not connect yet: a target that ServerTarget() refuses shows as
// INVALID_ARGUMENT in the first call, a bad certificate as UNAVAILABLE. Sends and receives messages
// of any size, never compresses, and leaves retries to call.h. A proxy that the environment names
// (https_proxy and the like) is used for TLS to other hosts alone.
std::shared_ptr<grpc::Channel> MakeChannel(const ChannelOptions& options);

}  // namespace gemmd::client
