#include "server/rpc/grpc_server.h"

#include <grpc/grpc.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <limits>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "grpcpp/ext/channelz_service_plugin.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/resource_quota.h"

namespace gemmd {
namespace {

absl::StatusOr<std::string> ReadFile(const char* option, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream contents;
  contents << file.rdbuf();
  if (!file || contents.str().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(option, " is \"", path, "\", which cannot be read or is empty"));
  }
  return contents.str();
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> Credentials(
    const GrpcServerOptions& options) {
  if (options.tls_certificate_file.empty() && options.tls_key_file.empty()) {
    return grpc::InsecureServerCredentials();
  }
  absl::StatusOr<std::string> certificate =
      ReadFile("tls.certificate_file", options.tls_certificate_file);
  if (!certificate.ok()) return certificate.status();
  absl::StatusOr<std::string> key = ReadFile("tls.key_file", options.tls_key_file);
  if (!key.ok()) return key.status();
  grpc::SslServerCredentialsOptions ssl;
  ssl.pem_key_cert_pairs.push_back({*std::move(key), *std::move(certificate)});
  return grpc::SslServerCredentials(ssl);
}

}  // namespace

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(
    const GrpcServerOptions& options, const std::vector<grpc::Service*>& services) {
  const auto credentials = Credentials(options);
  if (!credentials.ok()) return credentials.status();
  // Process-wide and idempotent; each must precede the first builder.
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::channelz::experimental::InitChannelzService();

  grpc::ServerBuilder builder;
  std::unique_ptr<GrpcServer> result(new GrpcServer);
  // Held for good: when its last user goes, the library waits up to ten seconds for a
  // poller of its own, and the process is about to end anyway.
  grpc_init();
  builder.AddListeningPort(options.listen, *credentials, &result->port_);
  for (grpc::Service* service : services) builder.RegisterService(service);
  constexpr std::uint64_t kMaxInt = std::numeric_limits<int>::max();
  builder.SetMaxReceiveMessageSize(static_cast<int>(std::min(options.message_bytes, kMaxInt)));
  builder.SetResourceQuota(
      grpc::ResourceQuota("gemmd").Resize(static_cast<std::size_t>(options.memory_bytes)));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.streams_per_connection);
  // Two servers on one port would share its connections between them unnoticed.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  result->server_ = builder.BuildAndStart();
  if (result->server_ == nullptr || result->port_ == 0) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", options.listen));
  }
  // gRPC answers for the server as a whole; a service is known once it was set.
  for (const char* name :
       {"gemmd.v1.Gemm", "gemmd.v1.Operands", "gemmd.v1.Regions", "gemmd.v1.Admin"}) {
    result->server_->GetHealthCheckService()->SetServingStatus(name, true);
  }
  return result;
}

void GrpcServer::SetServing(bool serving) {
  server_->GetHealthCheckService()->SetServingStatus(serving);
}

void GrpcServer::Shutdown(int timeout_ms) {
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(timeout_ms));
}

}  // namespace gemmd
