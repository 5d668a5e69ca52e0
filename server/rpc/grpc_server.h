// The gRPC server, with everything that gRPC brings along: health, reflection, channelz.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"
#include "server/net/acceptor.h"
#include "server/net/connection_table.h"
#include "server/net/listening_sockets.h"
#include "server/rpc/calls/live_call_limit.h"
#include "server/rpc/credentials.h"
#include "server/rpc/services/channelz_service.h"
#include "server/rpc/services/health_service.h"
#include "server/rpc/services/raw_service.h"
#include "server/rpc/services/reflection_service.h"
#include "server/rpc/services/unknown_method.h"
#include "server/rpc/tls_files.h"

namespace gemmd {

struct GrpcServerOptions {
  std::string listen;               // "HOST:PORT"; port 0 takes a free one
  std::uint64_t message_bytes = 0;  // largest request; also bounds a unary body
  std::uint64_t memory_bytes = 0;   // what gRPC may hold for requests being received
  int streams_per_connection = 0;   // calls at once on one connection
  bool channelz = false;            // whether the service of that name is served
  bool oip = false;                 // whether inference.GRPCInferenceService is among the services
  ConnectionTable::Limits connections;
  std::set<std::string> proxy_protocol;  // addresses of proxies, as ForwardedPeers has them
  LiveCallLimit::Limits live_calls;
  int connection_idle_ms = 0;  // then a connection without calls is closed
  int connection_age_ms = 0;   // then a connection takes no more calls; 0: never
  int ping_interval_ms = 0;    // the least between pings of a client that is sent nothing
  TlsFiles tls;
};

class GrpcServer {
 public:
  // INVALID_ARGUMENT: something is wrong with TLS's files. UNAVAILABLE: cannot listen there.
  // The services, the table and what is behind the door outlive the server. Health is SERVING when
  // this returns.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(
      const GrpcServerOptions& options, const std::vector<grpc::Service*>& services,
      ConnectionTable* connections, const Door& door);

  // Answers of grpc.health.v1 for every service.
  void SetServing(bool serving) { health_.SetServing(serving); }

  // Takes no new connections, closes those that are open and waits for the ends of their calls up
  // to `timeout_ms`. Clients see UNAVAILABLE.
  void Shutdown(int timeout_ms);

  // As LiveCallLimit::SetAll(). REQUIRES: no Shutdown() yet.
  void SetLiveCalls(std::size_t all) { live_call_limit_->SetAll(all); }

  // Looks at TLS's files at once, as ServerTls::Reload(); OK in plaintext. They are looked at once
  // a second without it.
  absl::Status ReloadTls() { return tls_ != nullptr ? tls_->Reload() : absl::OkStatus(); }

  // The port of the address that it listens on; REQUIRES: no Shutdown() yet.
  int port() const { return sockets_->port(); }

 private:
  GrpcServer(ConnectionTable* connections, std::unique_ptr<ServerTls> tls, ListeningSockets sockets,
             const GrpcServerOptions& options, const Door& door);

  ConnectionTable* const connections_;
  const std::unique_ptr<ServerTls> tls_;  // none: plaintext
  std::optional<ListeningSockets> sockets_;
  HealthService health_;
  ReflectionService reflection_;
  std::optional<ChannelzService> channelz_;  // none: it is not served
  UnknownMethod unknown_method_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> door_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<LiveCallLimit> live_call_limit_;
  std::unique_ptr<Acceptor> acceptor_;  // hands over to door_
};

}  // namespace gemmd
