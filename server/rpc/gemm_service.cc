#include "server/rpc/gemm_service.h"

#include <chrono>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/rpc/decode.h"
#include "server/rpc/encode.h"
#include "server/rpc/matmul_reactor.h"
#include "server/rpc/matmul_stream_reactor.h"
#include "server/rpc/tenant.h"
#include "server/rpc/unary.h"

namespace gemmd {
namespace {

// How exactly deadlines are kept of requests whose payload is not there.
constexpr std::chrono::milliseconds kLatePeriod(10);

absl::Status CheckCallerGflops(double gflops) {
  if (std::isfinite(gflops) && gflops >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("caller_gflops is ", gflops, "; it must be finite, and 0 or more"));
}

}  // namespace

GemmService::GemmService(Admission* admission, Statistics* statistics, const Clock* clock,
                         const MatmulSession::Options& session_options)
    : admission_(admission),
      statistics_(statistics),
      clock_(clock),
      session_options_(session_options),
      sessions_(clock, kLatePeriod) {}

grpc::ServerUnaryReactor* GemmService::Matmul(grpc::CallbackServerContext* context,
                                              const grpc::ByteBuffer* request,
                                              grpc::ByteBuffer* response) {
  return new MatmulReactor(admission_, statistics_, clock_, &active_calls_, context, request,
                           response);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* GemmService::MatmulStream(
    grpc::CallbackServerContext* context) {
  MatmulStreamReactor::Services services;
  services.admission = admission_;
  services.statistics = statistics_;
  services.clock = clock_;
  services.sessions = &sessions_;
  services.active_calls = &active_calls_;
  services.session_options = session_options_;
  return MatmulStreamReactor::Start(services, context);
}

grpc::ServerUnaryReactor* GemmService::Estimate(grpc::CallbackServerContext* context,
                                                const grpc::ByteBuffer* request,
                                                grpc::ByteBuffer* response) {
  return HandleUnary<v1::EstimateRequest>(
      context, request, response,
      [this, context](const v1::EstimateRequest& message) -> absl::StatusOr<v1::EstimateResponse> {
        if (absl::Status s = CheckCallerGflops(message.caller_gflops()); !s.ok()) return s;
        absl::StatusOr<MatmulCall> call = DecodeHeader(message.header());
        if (!call.ok()) return call.status();
        absl::StatusOr<Tenant> tenant = TenantOf(*context);
        if (!tenant.ok()) return tenant.status();
        call->tenant = *std::move(tenant);
        const absl::StatusOr<MatmulEstimate> estimate = admission_->Estimate(*call);
        if (!estimate.ok()) return estimate.status();
        return EncodeEstimate(*estimate, message.caller_gflops());
      });
}

}  // namespace gemmd
