#include "client/channel.h"

#include <grpc/grpc.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/text/address.h"
#include "base/text/server_target.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"
#include "grpcpp/support/client_interceptor.h"

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

// gRPC ends the process over what no header can carry. A question mark is no better a name, and the
// server says so.
std::string Printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

// Adds headers to every call of a channel.
class HeaderAdder final : public grpc::experimental::Interceptor {
 public:
  using Headers = std::vector<std::pair<std::string, std::string>>;

  explicit HeaderAdder(const Headers* headers) : headers_(*headers) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    using grpc::experimental::InterceptionHookPoints;
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      for (const auto& header : headers_) methods->GetSendInitialMetadata()->insert(header);
    }
    methods->Proceed();
  }

 private:
  const Headers& headers_;
};

class HeaderAdderFactory final : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit HeaderAdderFactory(HeaderAdder::Headers headers) : headers_(std::move(headers)) {}

  grpc::experimental::Interceptor* CreateClientInterceptor(
      grpc::experimental::ClientRpcInfo* /*info*/) override {
    return new HeaderAdder(&headers_);
  }

 private:
  const HeaderAdder::Headers headers_;  // outlives the channel's calls, as gRPC keeps the factory
};

// None where no call has anything to say, which costs nothing then.
std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> Interceptors(
    const ChannelOptions& options) {
  HeaderAdder::Headers headers;
  if (!options.tenant.empty()) headers.emplace_back("gemmd-tenant", Printable(options.tenant));
  if (!options.token.empty()) {
    headers.emplace_back("authorization", "Bearer " + Printable(options.token));
  }
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> factories;
  if (!headers.empty()) {
    factories.push_back(std::make_unique<HeaderAdderFactory>(std::move(headers)));
  }
  return factories;
}

// Returns whether a proxy that the environment names may carry the connection. It sees nothing of
// TLS. In plain text it would read the token and the matrices, which nobody asked for; and nothing
// that stays on this host needs one.
bool MayUseProxy(const ChannelOptions& options) {
  return options.tls.has_value() && !IsLocalAddress(options.target);
}

int Milliseconds(absl::Duration duration) {
  return static_cast<int>(std::min<std::int64_t>(absl::ToInt64Milliseconds(duration), INT_MAX));
}

// Bounds the time until a connection is had again that was lost, or has gone silent.
void SetPatience(const ChannelOptions& options, grpc::ChannelArguments& arguments) {
  // By default gRPC waits a second before it dials again, and two minutes in the end.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // This is no wait, but the time in which a connection must be made.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 10000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(options.keepalive_time));
  // gRPC makes it TCP_USER_TIMEOUT as well.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Milliseconds(options.keepalive_timeout));
  // Else gRPC asks twice, and no more until the call sends something.
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
}

// The library is held for good, once: when its last user goes, it waits up to ten seconds for a
// poller of its own, and a program that is done should end.
void HoldGrpc() {
  static const bool is_held = [] {
    grpc_init();
    return true;
  }();
  static_cast<void>(is_held);
}

// A channel whose every call ends so.
std::shared_ptr<grpc::Channel> RefusedChannel(const std::string& target,
                                              const absl::Status& status) {
  return grpc::CreateChannelInternal(
      "",
      grpc_lame_client_channel_create(target.c_str(), static_cast<grpc_status_code>(status.code()),
                                      std::string(status.message()).c_str()),
      {});
}

}  // namespace

std::shared_ptr<grpc::Channel> MakeChannel(const ChannelOptions& options) {
  HoldGrpc();
  const absl::StatusOr<std::string> target = ServerTarget("target", options.target);
  if (!target.ok()) return RefusedChannel(options.target, target.status());
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetCompressionAlgorithm(GRPC_COMPRESS_NONE);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, MayUseProxy(options) ? 1 : 0);
  SetPatience(options, arguments);
  if (options.own_connection) arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  if (options.tls && !options.tls->server_name_override.empty()) {
    arguments.SetSslTargetNameOverride(options.tls->server_name_override);
  }
  return grpc::experimental::CreateCustomChannelWithInterceptors(*target, Credentials(options.tls),
                                                                 arguments, Interceptors(options));
}

}  // namespace gemmd::client
