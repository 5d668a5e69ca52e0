#include "client/channel.h"

#include <grpc/grpc.h>

#include <algorithm>

#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"

namespace gemmd::client {
namespace {

std::shared_ptr<grpc::ChannelCredentials> Credentials(const std::optional<TlsOptions>& tls) {
  if (!tls) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = tls->root_certificates;
  options.pem_cert_chain = tls->client_certificate;
  options.pem_private_key = tls->client_key;
  return grpc::SslCredentials(options);
}

}  // namespace

std::shared_ptr<grpc::Channel> MakeChannel(const ChannelOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetCompressionAlgorithm(GRPC_COMPRESS_NONE);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // gRPC waits a second before it dials again, longer than all our own attempts take:
  // without this they would all see the same refused connection. The MIN of these arguments
  // keeps its default: it is no wait, but the time in which a connection must be made (20 s).
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  if (options.own_connection) arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  if (options.tls && !options.tls->server_name_override.empty()) {
    arguments.SetSslTargetNameOverride(options.tls->server_name_override);
  }
  // Held for good, once: when its last user goes, the library waits up to ten seconds for a
  // poller of its own, and a program that is done should end.
  static const bool is_held = [] {
    grpc_init();
    return true;
  }();
  static_cast<void>(is_held);
  return grpc::CreateCustomChannel(options.target, Credentials(options.tls), arguments);
}

void SetTenant(const std::string& tenant, grpc::ClientContext& context) {
  if (tenant.empty()) return;
  // gRPC ends the process over what no header can carry. A question mark is no better a name,
  // and the server says so.
  std::string value = tenant;
  std::replace_if(
      value.begin(), value.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  context.AddMetadata("gemmd-tenant", value);
}

}  // namespace gemmd::client
