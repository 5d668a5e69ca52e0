#include "server/rpc/gemm_service.h"

#include <chrono>

#include "server/rpc/matmul_reactor.h"
#include "server/rpc/matmul_stream_reactor.h"
#include "server/rpc/unary.h"

namespace gemmd {
namespace {

// How exactly deadlines are kept of requests whose payload is not there.
constexpr std::chrono::milliseconds kLatePeriod(10);

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
                                                const grpc::ByteBuffer*, grpc::ByteBuffer*) {
  return RefuseUnary(context, "Gemm.Estimate");
}

}  // namespace gemmd
