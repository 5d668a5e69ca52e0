// Calls over TLS, each over a connection of its own.
#pragma once

#include <memory>
#include <string>

#include "grpcpp/grpcpp.h"
#include "tests/client/testing/temporary_directory.h"
#include "tests/testing/certificates.h"
#include "tests/testing/raw_call.h"

namespace gemmd::testing {

struct TlsClient {
  std::string roots;             // PEM: the authorities that it trusts
  CertificateFiles certificate;  // which it shows; empty: none
  std::string server_name = "gemmd.test";
};

inline std::shared_ptr<grpc::Channel> TlsChannel(const std::string& address,
                                                 const TlsClient& client) {
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = client.roots;
  if (!client.certificate.key.empty()) {
    tls.pem_cert_chain = FileBytes(client.certificate.certificate);
    tls.pem_private_key = FileBytes(client.certificate.key);
  }
  grpc::ChannelArguments arguments;
  arguments.SetSslTargetNameOverride(client.server_name);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  return grpc::CreateCustomChannel(address, grpc::SslCredentials(tls), arguments);
}

// grpc.health.v1's answer for the server.
inline grpc::Status CheckHealth(const std::shared_ptr<grpc::Channel>& channel) {
  return RawUnaryCall(channel, "/grpc.health.v1.Health/Check", "").status;
}

inline grpc::Status CheckHealth(const std::string& address, const TlsClient& client) {
  return CheckHealth(TlsChannel(address, client));
}

}  // namespace gemmd::testing
