#include "server/rpc/services/gemm_service.h"

#include <chrono>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/rpc/codec/decode.h"
#include "server/rpc/codec/encode.h"
#include "server/rpc/reactors/matmul_reactor.h"
#include "server/rpc/reactors/matmul_stream_reactor.h"
#include "server/rpc/services/unary.h"

namespace gemmd {
namespace {

// The precision of the deadlines of requests whose payload is not there.
constexpr std::chrono::milliseconds kLatePeriod(10);

absl::Status CheckCallerGflops(double gflops) {
  if (std::isfinite(gflops) && gflops >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("caller_gflops is ", gflops, "; it must be finite, and 0 or more"));
}

}  // namespace

GemmService::GemmService(Admission* admission, Statistics* statistics, const Clock* clock,
                         const Door& door, const MatmulSession::Options& session_options)
    : RawService(door),
      admission_(admission),
      statistics_(statistics),
      clock_(clock),
      watch_(door.watch),
      authorizer_(door.authorizer),
      session_options_(session_options),
      sessions_(clock, kLatePeriod) {
  Serve("Matmul", [this](Context* context, const Login& login) {
    return new MatmulReactor({admission_, statistics_, clock_, &active_calls_, watch_},
                             login.identity.tenant, context);
  });
  Serve("MatmulStream", [this](Context* context, const Login& login) {
    MatmulStreamReactor::Services services;
    services.admission = admission_;
    services.statistics = statistics_;
    services.clock = clock_;
    services.sessions = &sessions_;
    services.active_calls = &active_calls_;
    services.watch = watch_;
    services.authorizer = authorizer_;
    services.session_options = ReadSessionOptions();
    return MatmulStreamReactor::Start(services, login, context);
  });
  Serve("Estimate", [this](Context* context, const Login& login) {
    return AnswerEstimate(login.identity.tenant, context);
  });
}

void GemmService::SetSessionOptions(const MatmulSession::Options& options) {
  const MutexLock lock(mutex_);
  session_options_ = options;
}

MatmulSession::Options GemmService::ReadSessionOptions() {
  const MutexLock lock(mutex_);
  return session_options_;
}

RequestReactor* GemmService::AnswerEstimate(const Tenant& tenant, Context* context) {
  return HandleUnary<v1::EstimateRequest>(
      watch_, context,
      [this, tenant](const v1::EstimateRequest& message) -> absl::StatusOr<v1::EstimateResponse> {
        if (absl::Status s = CheckCallerGflops(message.caller_gflops()); !s.ok()) return s;
        absl::StatusOr<MatmulCall> call = DecodeHeader(message.header());
        if (!call.ok()) return call.status();
        call->tenant = tenant;
        const absl::StatusOr<MatmulEstimate> estimate = admission_->Estimate(*call);
        if (!estimate.ok()) return estimate.status();
        return EncodeEstimate(*estimate, message.caller_gflops());
      });
}

}  // namespace gemmd
