// A connection to one gemmd server.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/matmul.h"
#include "client/options.h"
#include "client/pending_matmul.h"
#include "client/wire/codec.h"
#include "gemmd/v1/admin.pb.h"
#include "grpc/health/v1/health.pb.h"

namespace gemmd::client {

// Thread-safe. Connects at the first call, and again by itself after a failure. With several
// servers (ClientOptions::servers) it connects at once, and each call goes to one that serves: a
// product to the one that holds its operand, an attempt after UNAVAILABLE to another one. A product
// that goes nowhere else, as one in shared memory, names its server (CallOptions::server). The
// calls below a product's ask the first server of the list that serves.
//
// A product goes in one call or over a stream, as route.h chooses unless the options do; no byte of
// a matrix is copied on its way out, and each byte of a result once. Operands that are
// OperandSources are uploaded where the server does not have them, and then it is asked again: a
// server that was restarted is refilled without its callers noticing.
//
// Errors have the code and message that the server gave (status.h has the exception), and of
// several servers its name (ServerOf() in details.h); INTERNAL also where the server's answer
// contradicts itself or the request.
class Client {
 public:
  explicit Client(const ClientOptions& options);
  // Waits until every call has finished, its callback included, and so must not run in
  // a callback.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // The inputs are values that share their bytes: a caller may keep copies.
  absl::StatusOr<Product> Matmul(MatmulInputs inputs, const MatmulOptions& options = {},
                                 const CallOptions& call = {});

  // Returns once the request is under way. `done` runs exactly once, on a thread of
  // gRPC's, or on the caller's for a request that cannot be sent; it must not block,
  // and so must not call a synchronous method here. Requests that callbacks start may leave in one
  // message, if the results of those callbacks came in one.
  using MatmulDone = std::function<void(absl::StatusOr<Product>)>;
  std::shared_ptr<PendingMatmul> MatmulAsync(MatmulInputs inputs, const MatmulOptions& options,
                                             const CallOptions& call, MatmulDone done);
  // Starts a request that was encoded before, and that may be sent again.
  std::shared_ptr<PendingMatmul> MatmulAsync(std::shared_ptr<const EncodedMatmul> encoded,
                                             const CallOptions& call, MatmulDone done);

  // The servers as this client sees them, by address; without a health check where there is one.
  std::vector<ServerState> States() const;

  absl::StatusOr<v1::ServerInfoResponse> ServerInfo(const CallOptions& call = {});
  // Asks gRPC's health service. The empty name is the whole server's; NOT_FOUND where there is no
  // service of that name.
  absl::StatusOr<grpc::health::v1::HealthCheckResponse> Health(const std::string& service,
                                                               const CallOptions& call = {});
  absl::StatusOr<v1::ListKernelsResponse> ListKernels(const v1::ListKernelsRequest& request,
                                                      const CallOptions& call = {});
  absl::StatusOr<v1::EstimateResponse> Estimate(const v1::EstimateRequest& request,
                                                const CallOptions& call = {});
  absl::StatusOr<v1::StatisticsResponse> Statistics(const v1::StatisticsRequest& request = {},
                                                    const CallOptions& call = {});
  // Requests that have ended, and when their stages ran; see admin.proto.
  absl::StatusOr<v1::TracesResponse> Traces(const v1::TracesRequest& request,
                                            const CallOptions& call = {});
  // Has the server end; see admin.proto.
  absl::StatusOr<v1::DrainResponse> Drain(const CallOptions& call = {});
  // Takes as long as the launches do; see admin.proto.
  absl::StatusOr<v1::TuneResponse> Tune(const v1::TuneRequest& request,
                                        const CallOptions& call = {});

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  struct Connection;

  std::shared_ptr<PendingMatmul> Start(std::shared_ptr<const EncodedMatmul> encoded,
                                       const CallOptions& call, TimePoint begun,
                                       absl::Duration encode, MatmulDone done);

  const std::unique_ptr<Connection> connection_;
};

}  // namespace gemmd::client
