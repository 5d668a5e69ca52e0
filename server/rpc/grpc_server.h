// The listening socket and everything gRPC brings along: health, reflection, channelz.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"

namespace gemmd {

struct GrpcServerOptions {
  std::string listen;                // "HOST:PORT"; port 0 takes a free one
  std::uint64_t message_bytes = 0;   // largest request; also bounds a unary body
  std::uint64_t memory_bytes = 0;    // what gRPC may hold for requests being received
  int streams_per_connection = 0;    // calls at once on one connection
  std::string tls_certificate_file;  // both empty: plaintext
  std::string tls_key_file;
};

class GrpcServer {
 public:
  // INVALID_ARGUMENT: a TLS file cannot be read. UNAVAILABLE: cannot listen there.
  // The services outlive the server. Health is SERVING when this returns.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(
      const GrpcServerOptions& options, const std::vector<grpc::Service*>& services);

  // Answers of grpc.health.v1 for every service.
  void SetServing(bool serving);

  // Takes no new calls, waits for those in flight up to `timeout_ms`, cancels the rest.
  void Shutdown(int timeout_ms);

  int port() const { return port_; }

 private:
  GrpcServer() = default;

  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

}  // namespace gemmd
