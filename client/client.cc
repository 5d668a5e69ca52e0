#include "client/client.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <utility>

#include "absl/time/clock.h"
#include "base/process/cpu_share.h"
#include "client/calls/call.h"
#include "client/calls/call_count.h"
#include "client/calls/matmul_attempts.h"
#include "client/calls/servers.h"
#include "client/wire/codec.h"
#include "gemmd/v1/admin.grpc.pb.h"
#include "gemmd/v1/gemm.grpc.pb.h"

namespace gemmd::client {
namespace {

// Connections beyond the machine's cores take turns and carry no more together.
int MaxChannels() {
  constexpr int kMost = 8;
  return std::min(UsableCpus(), kMost);
}

}  // namespace

struct Client::Connection {
  Connection(const ClientOptions& options, const std::shared_ptr<Timer>& timer)
      : matmul{options.retry, timer, std::make_shared<CallCount>(), MaxChannels(),
               options.affinity_header},
        route(options.route),
        servers(options, timer) {}

  const MatmulSettings matmul;
  const RouteOptions route;
  Servers servers;

  template <typename Request, typename Response>
  void Start(Request request, const CallOptions& call,
             typename UnaryCall<Request, Response>::Start start,
             typename UnaryCall<Request, Response>::Done done) {
    TourPlan plan = PlanOf(call);
    plan.takes_first = true;
    std::make_shared<UnaryCall<Request, Response>>(
        matmul.calls, servers, std::move(plan), matmul.retry, matmul.timer,
        absl::Now() + call.timeout, std::move(request), std::move(start), std::move(done))
        ->Attempt();
  }

  // Starts a call and waits for its end.
  template <typename Response, typename Request>
  absl::StatusOr<Response> Wait(const Request& request, const CallOptions& call,
                                typename UnaryCall<Request, Response>::Start start) {
    // Shared, because the waiter may be gone before set_value has returned.
    auto result = std::make_shared<std::promise<absl::StatusOr<Response>>>();
    Start<Request, Response>(
        request, call, std::move(start),
        [result](const absl::Status& status, Response* response, const CallTimes&) {
          if (status.ok()) {
            result->set_value(std::move(*response));
          } else {
            result->set_value(status);
          }
        });
    return result->get_future().get();
  }
};

namespace {

using Clock = std::chrono::steady_clock;

absl::Duration Since(Clock::time_point start) { return absl::FromChrono(Clock::now() - start); }

}  // namespace

Client::Client(const ClientOptions& options)
    : connection_(std::make_unique<Connection>(
          options, options.timer == nullptr ? MakeAlarmTimer() : options.timer)) {}

Client::~Client() { connection_->matmul.calls->WaitForNone(); }

std::vector<ServerState> Client::States() const { return connection_->servers.states(); }

std::shared_ptr<PendingMatmul> Client::MatmulAsync(MatmulInputs inputs,
                                                   const MatmulOptions& options,
                                                   const CallOptions& call, MatmulDone done) {
  const Clock::time_point begun = Clock::now();
  std::shared_ptr<const EncodedMatmul> encoded = Encode(std::move(inputs), options);
  return Start(std::move(encoded), call, begun, Since(begun), std::move(done));
}

std::shared_ptr<PendingMatmul> Client::MatmulAsync(std::shared_ptr<const EncodedMatmul> encoded,
                                                   const CallOptions& call, MatmulDone done) {
  return Start(std::move(encoded), call, Clock::now(), absl::ZeroDuration(), std::move(done));
}

std::shared_ptr<PendingMatmul> Client::Start(std::shared_ptr<const EncodedMatmul> encoded,
                                             const CallOptions& call, TimePoint begun,
                                             absl::Duration encode, MatmulDone done) {
  const auto pending = std::make_shared<MatmulAttempts>(
      connection_->servers, connection_->matmul, std::move(encoded),
      call.route.value_or(connection_->route), call, begun, encode, std::move(done));
  pending->Attempt();
  return pending;
}

absl::StatusOr<Product> Client::Matmul(MatmulInputs inputs, const MatmulOptions& options,
                                       const CallOptions& call) {
  // Shared, because the waiter may be gone before set_value has returned.
  const auto result = std::make_shared<std::promise<absl::StatusOr<Product>>>();
  MatmulAsync(std::move(inputs), options, call,
              [result](absl::StatusOr<Product> product) { result->set_value(std::move(product)); });
  return result->get_future().get();
}

absl::StatusOr<v1::ServerInfoResponse> Client::ServerInfo(const CallOptions& call) {
  return connection_->Wait<v1::ServerInfoResponse>(
      v1::ServerInfoRequest(), call,
      [](const Server& server, auto* context, auto* request, auto* response, auto on_status) {
        server.admin->async()->ServerInfo(context, request, response, std::move(on_status));
      });
}

absl::StatusOr<grpc::health::v1::HealthCheckResponse> Client::Health(const std::string& service,
                                                                     const CallOptions& call) {
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  return connection_->Wait<grpc::health::v1::HealthCheckResponse>(
      request, call,
      [](const Server& server, auto* context, auto* message, auto* response, auto on_status) {
        server.health->async()->Check(context, message, response, std::move(on_status));
      });
}

absl::StatusOr<v1::ListKernelsResponse> Client::ListKernels(const v1::ListKernelsRequest& request,
                                                            const CallOptions& call) {
  return connection_->Wait<v1::ListKernelsResponse>(
      request, call,
      [](const Server& server, auto* context, auto* message, auto* response, auto on_status) {
        server.admin->async()->ListKernels(context, message, response, std::move(on_status));
      });
}

absl::StatusOr<v1::EstimateResponse> Client::Estimate(const v1::EstimateRequest& request,
                                                      const CallOptions& call) {
  return connection_->Wait<v1::EstimateResponse>(
      request, call,
      [](const Server& server, auto* context, auto* message, auto* response, auto on_status) {
        server.gemm->async()->Estimate(context, message, response, std::move(on_status));
      });
}

absl::StatusOr<v1::StatisticsResponse> Client::Statistics(const v1::StatisticsRequest& request,
                                                          const CallOptions& call) {
  return connection_->Wait<v1::StatisticsResponse>(
      request, call,
      [](const Server& server, auto* context, auto* message, auto* response, auto on_status) {
        server.admin->async()->Statistics(context, message, response, std::move(on_status));
      });
}

absl::StatusOr<v1::DrainResponse> Client::Drain(const CallOptions& call) {
  return connection_->Wait<v1::DrainResponse>(
      v1::DrainRequest(), call,
      [](const Server& server, auto* context, auto* message, auto* response, auto on_status) {
        server.admin->async()->Drain(context, message, response, std::move(on_status));
      });
}

absl::StatusOr<v1::TracesResponse> Client::Traces(const v1::TracesRequest& request,
                                                  const CallOptions& call) {
  return connection_->Wait<v1::TracesResponse>(
      request, call,
      [](const Server& server, auto* context, auto* message, auto* response, auto on_status) {
        server.admin->async()->Traces(context, message, response, std::move(on_status));
      });
}

absl::StatusOr<v1::TuneResponse> Client::Tune(const v1::TuneRequest& request,
                                              const CallOptions& call) {
  return connection_->Wait<v1::TuneResponse>(
      request, call,
      [](const Server& server, auto* context, auto* message, auto* response, auto on_status) {
        server.admin->async()->Tune(context, message, response, std::move(on_status));
      });
}

}  // namespace gemmd::client
