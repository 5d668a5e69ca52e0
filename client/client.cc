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
#include "client/wire/codec.h"
#include "gemmd/v1/admin.grpc.pb.h"
#include "gemmd/v1/gemm.grpc.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace gemmd::client {

struct Client::Connection {
  std::shared_ptr<CallCount> calls = std::make_shared<CallCount>();
  RetryPolicy retry;
  std::shared_ptr<Timer> timer;
  RouteOptions route;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<MatmulLink> matmul;
  std::unique_ptr<v1::Admin::Stub> admin;
  std::unique_ptr<grpc::health::v1::Health::Stub> health;
  std::unique_ptr<v1::Gemm::Stub> gemm;  // for what is neither sent nor received in slices

  template <typename Request, typename Response>
  void Start(Request request, const CallOptions& call,
             typename UnaryCall<Request, Response>::Start start,
             typename UnaryCall<Request, Response>::Done done) const {
    std::make_shared<UnaryCall<Request, Response>>(calls, retry, timer, absl::Now() + call.timeout,
                                                   std::move(request), std::move(start),
                                                   std::move(done))
        ->Attempt();
  }

  // Starts a call and waits for its end.
  template <typename Response, typename Request>
  absl::StatusOr<Response> Wait(const Request& request, const CallOptions& call,
                                typename UnaryCall<Request, Response>::Start start) const {
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

// Connections beyond the machine's cores take turns and carry no more together.
int MaxChannels() {
  constexpr int kMost = 8;
  return std::min(UsableCpus(), kMost);
}

}  // namespace

Client::Client(const ClientOptions& options) : connection_(std::make_unique<Connection>()) {
  connection_->retry = options.retry;
  connection_->timer = options.timer == nullptr ? MakeAlarmTimer() : options.timer;
  connection_->route = options.route;
  connection_->channel = MakeChannel(options.channel);
  const OperandLink operands{options.retry, connection_->timer, connection_->channel,
                             UploadChannels(options.channel)};
  connection_->matmul = std::make_unique<MatmulLink>(options.channel, operands, options.streams);
  connection_->matmul->calls = connection_->calls;
  connection_->matmul->max_channels = MaxChannels();
  connection_->admin = v1::Admin::NewStub(connection_->channel);
  connection_->health = grpc::health::v1::Health::NewStub(connection_->channel);
  connection_->gemm = v1::Gemm::NewStub(connection_->channel);
}

Client::~Client() { connection_->calls->WaitForNone(); }

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
      *connection_->matmul, std::move(encoded), call.route.value_or(connection_->route),
      absl::Now() + call.timeout, call.trace, begun, encode, std::move(done));
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
      [connection = connection_.get()](auto* context, auto* request, auto* response,
                                       auto on_status) {
        connection->admin->async()->ServerInfo(context, request, response, std::move(on_status));
      });
}

absl::StatusOr<grpc::health::v1::HealthCheckResponse> Client::Health(const std::string& service,
                                                                     const CallOptions& call) {
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  return connection_->Wait<grpc::health::v1::HealthCheckResponse>(
      request, call,
      [connection = connection_.get()](auto* context, auto* message, auto* response,
                                       auto on_status) {
        connection->health->async()->Check(context, message, response, std::move(on_status));
      });
}

absl::StatusOr<v1::ListKernelsResponse> Client::ListKernels(const v1::ListKernelsRequest& request,
                                                            const CallOptions& call) {
  return connection_->Wait<v1::ListKernelsResponse>(
      request, call,
      [connection = connection_.get()](auto* context, auto* message, auto* response,
                                       auto on_status) {
        connection->admin->async()->ListKernels(context, message, response, std::move(on_status));
      });
}

absl::StatusOr<v1::EstimateResponse> Client::Estimate(const v1::EstimateRequest& request,
                                                      const CallOptions& call) {
  return connection_->Wait<v1::EstimateResponse>(
      request, call,
      [connection = connection_.get()](auto* context, auto* message, auto* response,
                                       auto on_status) {
        connection->gemm->async()->Estimate(context, message, response, std::move(on_status));
      });
}

absl::StatusOr<v1::StatisticsResponse> Client::Statistics(
    const CallOptions& call, const std::optional<std::string>& quota_of) {
  v1::StatisticsRequest message;
  if (quota_of.has_value()) message.set_tenant(*quota_of);
  return connection_->Wait<v1::StatisticsResponse>(
      message, call,
      [connection = connection_.get()](auto* context, auto* request, auto* response,
                                       auto on_status) {
        connection->admin->async()->Statistics(context, request, response, std::move(on_status));
      });
}

absl::StatusOr<v1::TracesResponse> Client::Traces(const v1::TracesRequest& request,
                                                  const CallOptions& call) {
  return connection_->Wait<v1::TracesResponse>(
      request, call,
      [connection = connection_.get()](auto* context, auto* message, auto* response,
                                       auto on_status) {
        connection->admin->async()->Traces(context, message, response, std::move(on_status));
      });
}

absl::StatusOr<v1::TuneResponse> Client::Tune(const v1::TuneRequest& request,
                                              const CallOptions& call) {
  return connection_->Wait<v1::TuneResponse>(
      request, call,
      [connection = connection_.get()](auto* context, auto* message, auto* response,
                                       auto on_status) {
        connection->admin->async()->Tune(context, message, response, std::move(on_status));
      });
}

}  // namespace gemmd::client
