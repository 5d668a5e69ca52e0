#include "server/rpc/grpc_server.h"

#include <grpc/grpc.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/resource_quota.h"
#include "inference/grpc_service.grpc.pb.h"
#include "server/net/forwarded_peers.h"
#include "server/rpc/grpc_log.h"

namespace gemmd {
namespace {

// gRPC inflates a message before it looks at its size, and a thousandfold. So nothing is inflated,
// and a call that announces an encoding ends with UNIMPLEMENTED, whatever its method.
void RefuseCompression(grpc::ServerBuilder* builder) {
  builder->AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
}

// Those whose health is told.
std::vector<std::string> OwnServices(const GrpcServerOptions& options) {
  std::vector<std::string> services = {"gemmd.v1.Gemm", "gemmd.v1.Operands", "gemmd.v1.Regions",
                                       "gemmd.v1.Admin"};
  if (options.oip) services.emplace_back(inference::GRPCInferenceService::service_full_name());
  return services;
}

std::vector<std::string> AllServices(const GrpcServerOptions& options) {
  std::vector<std::string> services = OwnServices(options);
  if (options.channelz) services.emplace_back(ChannelzWire::service_full_name());
  services.emplace_back("grpc.health.v1.Health");
  services.emplace_back("grpc.reflection.v1alpha.ServerReflection");
  return services;
}

}  // namespace

GrpcServer::GrpcServer(ConnectionTable* connections, std::unique_ptr<ServerTls> tls,
                       ListeningSockets sockets, const GrpcServerOptions& options, const Door& door)
    : connections_(connections),
      tls_(std::move(tls)),
      sockets_(std::move(sockets)),
      health_(OwnServices(options), door),
      reflection_(AllServices(options), door),
      unknown_method_(door.watch) {
  if (options.channelz) channelz_.emplace(door);
}

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(
    const GrpcServerOptions& options, const std::vector<grpc::Service*>& services,
    ConnectionTable* connections, const Door& door) {
  CallWatch* const watch = door.watch;
  // Process-wide and idempotent; each must precede the first builder, and the log what logs.
  RedirectGrpcLog();
  std::unique_ptr<ServerTls> tls;
  if (!options.tls.certificate_file.empty()) {
    constexpr std::chrono::seconds kReloadPeriod(1);
    absl::StatusOr<std::unique_ptr<ServerTls>> started =
        ServerTls::Start(options.tls, kReloadPeriod);
    if (!started.ok()) return started.status();
    tls = *std::move(started);
  }
  absl::StatusOr<ListeningSockets> sockets = ListeningSockets::Listen(options.listen);
  if (!sockets.ok()) return sockets.status();
  ForwardedPeers::Get().SetProxies(options.proxy_protocol);
  grpc::EnableDefaultHealthCheckService(false);  // see HealthService

  grpc::ServerBuilder builder;
  std::unique_ptr<GrpcServer> result(
      new GrpcServer(connections, std::move(tls), *std::move(sockets), options, door));
  // gRPC is held for good: when its last user goes, the library waits up to ten seconds for a
  // poller of its own, and the process is about to end anyway.
  grpc_init();
  using External = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
  result->door_ = builder.experimental().AddExternalConnectionAcceptor(
      External::FROM_FD,
      result->tls_ != nullptr ? result->tls_->credentials() : grpc::InsecureServerCredentials());
  builder.RegisterService(&result->health_);
  builder.RegisterService(&result->reflection_);
  if (result->channelz_.has_value()) builder.RegisterService(&*result->channelz_);
  builder.RegisterCallbackGenericService(&result->unknown_method_);
  for (grpc::Service* service : services) builder.RegisterService(service);
  constexpr std::uint64_t kMaxInt = std::numeric_limits<int>::max();
  builder.SetMaxReceiveMessageSize(static_cast<int>(std::min(options.message_bytes, kMaxInt)));
  builder.SetResourceQuota(
      grpc::ResourceQuota("gemmd").Resize(static_cast<std::size_t>(options.memory_bytes)));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.streams_per_connection);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 1);  // ChannelzCalls
  // A connection has this long for TLS and HTTP/2 to begin.
  constexpr int kHandshakeMs = 20000;
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, options.connection_idle_ms);
  if (options.connection_age_ms != 0) {
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, options.connection_age_ms);
  }
  // Machines that vanish close nothing: a silent one is asked whether it is there.
  constexpr int kAskMs = 60000;
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kAskMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kAskMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             options.ping_interval_ms);
  RefuseCompression(&builder);
  result->server_ = builder.BuildAndStart();
  if (result->server_ == nullptr) return absl::InternalError("gRPC cannot start a server");
  // A flood makes some 1000 calls in that time.
  constexpr std::chrono::milliseconds kLookPeriod(20);
  result->live_call_limit_ =
      std::make_unique<LiveCallLimit>(options.live_calls, std::make_unique<ChannelzCalls>(),
                                      &watch->clock(), kLookPeriod, watch->close_connection());
  result->acceptor_ = std::make_unique<Acceptor>(
      result->sockets_->sockets(), connections, &watch->clock(),
      [watch](const std::string& peer) { return watch->MayConnect(peer); },
      [door = result->door_.get()](int fd) {
        grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
        connection.fd = fd;
        door->HandleNewConnection(&connection);
      },
      &ForwardedPeers::Get());
  return result;
}

void GrpcServer::Shutdown(int timeout_ms) {
  acceptor_.reset();
  sockets_.reset();
  live_call_limit_.reset();
  // gRPC answers CANCELLED to calls that come between its shutdown and its client's seeing that
  // (1.51, KillZombie), and nobody tries such a call again.
  connections_->CloseAll();
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(timeout_ms));
}

}  // namespace gemmd
