#include "client/client.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <utility>

#include "absl/time/clock.h"
#include "client/call.h"
#include "client/call_count.h"
#include "client/codec.h"
#include "gemmd/v1/admin.grpc.pb.h"
#include "gemmd/v1/gemm.pb.h"
#include "grpcpp/generic/generic_stub.h"

namespace gemmd::client {

namespace {

constexpr char kMatmul[] = "/gemmd.v1.Gemm/Matmul";

}  // namespace

struct Client::Connection {
  std::shared_ptr<CallCount> calls = std::make_shared<CallCount>();
  RetryPolicy retry;
  std::shared_ptr<Timer> timer;
  std::shared_ptr<grpc::Channel> channel;
  // Bytes that we serialized out, a message in.
  std::unique_ptr<grpc::TemplatedGenericStub<grpc::ByteBuffer, v1::MatmulResponse>> matmul;
  std::unique_ptr<v1::Admin::Stub> admin;

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

// Completes what was measured before and during the call.
absl::StatusOr<Product> Finish(v1::MatmulResponse& response, const ExpectedResult& expected,
                               const CallTimes& call, Clock::time_point begun, ClientTimes times) {
  const Clock::time_point received = Clock::now();
  absl::StatusOr<Matrix> d = DecodeResult(response, expected);
  if (!d.ok()) return d.status();
  times.decode = Since(received);
  times.attempts = call.attempts;
  times.waited = call.waited;
  times.round_trip = call.round_trip;
  times.wire = std::max(absl::ZeroDuration(),
                        call.round_trip - absl::Microseconds(response.receipt().total_us()));
  times.total = Since(begun);
  return Product{*std::move(d), Receipt{std::move(*response.mutable_receipt()), times}};
}

}  // namespace

Client::Client(const ClientOptions& options) : connection_(std::make_unique<Connection>()) {
  connection_->retry = options.retry;
  connection_->timer = options.timer == nullptr ? MakeAlarmTimer() : options.timer;
  connection_->channel = MakeChannel(options.channel);
  connection_->matmul =
      std::make_unique<grpc::TemplatedGenericStub<grpc::ByteBuffer, v1::MatmulResponse>>(
          connection_->channel);
  connection_->admin = v1::Admin::NewStub(connection_->channel);
}

Client::~Client() { connection_->calls->WaitForNone(); }

void Client::MatmulAsync(MatmulInputs inputs, const MatmulOptions& options, const CallOptions& call,
                         MatmulDone done) {
  const Clock::time_point begun = Clock::now();
  const absl::StatusOr<EncodedMatmul> encoded = Encode(std::move(inputs), options);
  if (!encoded.ok()) return done(encoded.status());
  Start(*encoded, call, begun, Since(begun), std::move(done));
}

void Client::MatmulAsync(const EncodedMatmul& encoded, const CallOptions& call, MatmulDone done) {
  Start(encoded, call, Clock::now(), absl::ZeroDuration(), std::move(done));
}

void Client::Start(const EncodedMatmul& encoded, const CallOptions& call, TimePoint begun,
                   absl::Duration encode, MatmulDone done) {
  ClientTimes times;
  times.encode = encode;
  connection_->Start<grpc::ByteBuffer, v1::MatmulResponse>(
      encoded.request, call,
      [connection = connection_.get()](auto* context, auto* message, auto* response,
                                       auto on_status) {
        connection->matmul->UnaryCall(context, kMatmul, grpc::StubOptions(), message, response,
                                      std::move(on_status));
      },
      [expected = encoded.expected, begun, times, done = std::move(done)](
          const absl::Status& status, v1::MatmulResponse* response, const CallTimes& call_times) {
        if (!status.ok()) return done(status);
        done(Finish(*response, expected, call_times, begun, times));
      });
}

absl::StatusOr<Product> Client::Matmul(MatmulInputs inputs, const MatmulOptions& options,
                                       const CallOptions& call) {
  std::promise<absl::StatusOr<Product>> result;
  MatmulAsync(std::move(inputs), options, call,
              [&result](absl::StatusOr<Product> product) { result.set_value(std::move(product)); });
  return result.get_future().get();
}

absl::StatusOr<v1::ServerInfoResponse> Client::ServerInfo(const CallOptions& call) {
  return connection_->Wait<v1::ServerInfoResponse>(
      v1::ServerInfoRequest(), call,
      [connection = connection_.get()](auto* context, auto* request, auto* response,
                                       auto on_status) {
        connection->admin->async()->ServerInfo(context, request, response, std::move(on_status));
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

absl::StatusOr<v1::StatisticsResponse> Client::Statistics(const CallOptions& call) {
  return connection_->Wait<v1::StatisticsResponse>(
      v1::StatisticsRequest(), call,
      [connection = connection_.get()](auto* context, auto* request, auto* response,
                                       auto on_status) {
        connection->admin->async()->Statistics(context, request, response, std::move(on_status));
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
