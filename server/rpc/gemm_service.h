// gemmd.v1.Gemm. Thin: decode, call admission, encode.
#pragma once

#include <atomic>

#include "gemmd/v1/gemm.grpc.pb.h"
#include "server/admission/admission.h"
#include "server/observe/statistics.h"
#include "server/transfer/session_registry.h"

namespace gemmd {

using RawGemmService =
    v1::Gemm::WithRawCallbackMethod_Matmul<v1::Gemm::WithRawCallbackMethod_MatmulStream<
        v1::Gemm::WithRawCallbackMethod_Estimate<v1::Gemm::Service>>>;

class GemmService final : public RawGemmService {
 public:
  // The arguments outlive the service.
  GemmService(Admission* admission, Statistics* statistics, const Clock* clock,
              const MatmulSession::Options& session_options);

  // Calls, streams among them, that gRPC is not done with.
  int active_calls() const { return active_calls_; }

  // Lets streams go on until their requests have ended.
  void StartDraining() { sessions_.StartDraining(); }

  grpc::ServerUnaryReactor* Matmul(grpc::CallbackServerContext* context,
                                   const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override;

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* MatmulStream(
      grpc::CallbackServerContext* context) override;

  grpc::ServerUnaryReactor* Estimate(grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;

 private:
  Admission* const admission_;
  Statistics* const statistics_;
  const Clock* const clock_;
  const MatmulSession::Options session_options_;
  std::atomic<int> active_calls_{0};
  SessionRegistry sessions_;
};

}  // namespace gemmd
