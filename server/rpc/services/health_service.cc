#include "server/rpc/services/health_service.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/text/quoted.h"
#include "server/rpc/services/unary.h"

namespace gemmd {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

// One Watch: sends the status when its client has what was sent before.
class HealthService::Watcher final : public RequestReactor {
 public:
  Watcher(HealthService* service, CallWatch* watch, Context* context)
      : RequestReactor(watch, context), service_(service) {}

  // All watchers have one mutex.
  void AssertLocked() const ABSL_ASSERT_EXCLUSIVE_LOCK(service_->mutex_) {
    service_->mutex_.AssertHeld();
  }

  void OnWriteDone(bool ok) override {
    const MutexLock lock(service_->mutex_);
    is_writing_ = false;
    ExpectNothing();
    is_over_ = is_over_ || !ok;
    Update();
  }

  void OnCancel() override {
    const MutexLock lock(service_->mutex_);
    is_over_ = true;
    Update();
  }

  void Update() ABSL_EXCLUSIVE_LOCKS_REQUIRED(service_->mutex_) {
    if (is_writing_ || is_finished_ || !is_known_.has_value()) return;
    if (is_over_) {
      is_finished_ = true;
      return FinishCall(grpc::Status::CANCELLED);
    }
    const Status now = !*is_known_             ? HealthCheckResponse::SERVICE_UNKNOWN
                       : service_->is_serving_ ? HealthCheckResponse::SERVING
                                               : HealthCheckResponse::NOT_SERVING;
    if (sent_ == now) return;
    sent_ = now;
    is_writing_ = true;
    HealthCheckResponse response;
    response.set_status(now);
    const grpc::Slice slice(response.SerializeAsString());
    outgoing_ = grpc::ByteBuffer(&slice, 1);
    ExpectRead(outgoing_.Length());
    StartWrite(&outgoing_);
  }

 private:
  ~Watcher() override = default;

  void OnMessage(const grpc::ByteBuffer& message) override {
    HealthCheckRequest request;
    if (absl::Status s = ParseMessage(message, &request); !s.ok()) return Fail(s);
    const MutexLock lock(service_->mutex_);
    service_->watchers_.insert(this);
    is_known_ = service_->Has(request.service());
    Update();
  }

  void OnEnd() override {
    const MutexLock lock(service_->mutex_);
    service_->watchers_.erase(this);
  }

  HealthService* const service_;
  // True if there is such a service; none: no message yet.
  std::optional<bool> is_known_ ABSL_GUARDED_BY(service_->mutex_);
  std::optional<Status> sent_ ABSL_GUARDED_BY(service_->mutex_);
  grpc::ByteBuffer outgoing_ ABSL_GUARDED_BY(service_->mutex_);
  bool is_writing_ ABSL_GUARDED_BY(service_->mutex_) = false;
  bool is_over_ ABSL_GUARDED_BY(service_->mutex_) = false;
  bool is_finished_ ABSL_GUARDED_BY(service_->mutex_) = false;
};

HealthService::HealthService(std::vector<std::string> services, const Door& door)
    : RawService(door), services_(std::move(services)), watch_(door.watch) {
  Serve("Check", [this](Context* context, const Login&) {
    return HandleUnary<HealthCheckRequest>(
        watch_, context,
        [this](const HealthCheckRequest& request) -> absl::StatusOr<HealthCheckResponse> {
          if (!Has(request.service())) {
            return absl::NotFoundError(absl::StrCat("service is ", Quoted(request.service()),
                                                    ": there is none of that name"));
          }
          const MutexLock lock(mutex_);
          HealthCheckResponse response;
          response.set_status(is_serving_ ? HealthCheckResponse::SERVING
                                          : HealthCheckResponse::NOT_SERVING);
          return response;
        });
  });
  Serve("Watch",
        [this](Context* context, const Login&) { return new Watcher(this, watch_, context); });
}

void HealthService::SetServing(bool serving) {
  const MutexLock lock(mutex_);
  is_serving_ = serving;
  for (Watcher* const each : watchers_) {
    each->AssertLocked();
    each->Update();
  }
}

bool HealthService::Has(const std::string& service) const {
  return service.empty() ||
         std::find(services_.begin(), services_.end(), service) != services_.end();
}

}  // namespace gemmd
