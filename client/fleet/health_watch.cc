#include "client/fleet/health_watch.h"

#include <utility>

#include "base/sync/mutex.h"
#include "client/calls/call_count.h"
#include "client/calls/timer.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/support/client_callback.h"

namespace gemmd::client {
namespace {

using HealthService = grpc::health::v1::Health;
using Response = grpc::health::v1::HealthCheckResponse;

// Between two watches of a server. The second one waits for the connection, not for this.
constexpr absl::Duration kPause = absl::Seconds(1);

Health HealthOf(const Response& response) {
  return response.status() == Response::SERVING ? Health::kServing : Health::kNotServing;
}

// Returns whether another watch may say more than the one that ended so.
bool MayAskAgain(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::UNIMPLEMENTED:
    case grpc::StatusCode::UNAUTHENTICATED:
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::INVALID_ARGUMENT:  // of a channel that no server was found for
      return false;
    default:
      return true;
  }
}

}  // namespace

struct HealthWatch::State {
  Told told;
  const std::shared_ptr<Timer> timer = MakeAlarmTimer();
  CallCount streams;
  std::unique_ptr<HealthService::Stub> stub;  // gone once it has stopped

  Mutex mutex;
  bool has_stopped ABSL_GUARDED_BY(mutex) = false;
  Stream* stream ABSL_GUARDED_BY(mutex) = nullptr;
};

// Belongs to itself: gone once gRPC has told its end.
class HealthWatch::Stream final : public grpc::ClientReadReactor<Response> {
 public:
  explicit Stream(std::shared_ptr<State> state) : state_(std::move(state)) {}

  // REQUIRES: counted among the state's streams.
  void Start() {
    // gRPC dials until it is through.
    context_.set_wait_for_ready(true);
    state_->stub->async()->Watch(&context_, &request_, this);
    StartRead(&response_);
    StartCall();
  }

  void Cancel() { context_.TryCancel(); }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    state_->told(HealthOf(response_));
    StartRead(&response_);
  }

  void OnDone(const grpc::Status& status) override {
    const std::shared_ptr<State> state = std::move(state_);
    {
      const MutexLock lock(state->mutex);
      state->stream = nullptr;
    }
    // Its context refers to the channel, which must not end on this thread: its end waits for this.
    delete this;
    OnEnd(state, status);
    state->streams.End();
  }

 private:
  std::shared_ptr<State> state_;
  grpc::ClientContext context_;
  const grpc::health::v1::HealthCheckRequest request_;  // of the server as a whole
  Response response_;
};

HealthWatch::HealthWatch(const std::shared_ptr<grpc::Channel>& channel, Told told)
    : state_(std::make_shared<State>()) {
  state_->told = std::move(told);
  state_->stub = HealthService::NewStub(channel);
  Begin(state_);
}

HealthWatch::~HealthWatch() {
  {
    const MutexLock lock(state_->mutex);
    state_->has_stopped = true;
    // Locked, so that it does not end meanwhile. gRPC calls nobody back from within.
    if (state_->stream != nullptr) state_->stream->Cancel();
  }
  state_->streams.WaitForNone();
  state_->stub.reset();
  state_->told = nullptr;
}

void HealthWatch::Begin(const std::shared_ptr<State>& state) {
  const MutexLock lock(state->mutex);
  if (state->has_stopped) return;
  state->streams.Begin();
  state->stream = new Stream(state);
  state->stream->Start();
}

void HealthWatch::OnEnd(const std::shared_ptr<State>& state, const grpc::Status& status) {
  {
    const MutexLock lock(state->mutex);
    if (state->has_stopped) return;
  }
  const bool is_lost = status.error_code() == grpc::StatusCode::UNAVAILABLE;
  state->told(is_lost ? Health::kNotServing : Health::kUnknown);
  if (!MayAskAgain(status)) return;
  state->timer->After(kPause, [state] { Begin(state); });
}

}  // namespace gemmd::client
