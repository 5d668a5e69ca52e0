// gemmd.v1.Gemm. Thin: decode, call admission, encode.
#pragma once

#include <atomic>

#include "gemmd/v1/gemm.grpc.pb.h"
#include "server/admission/admission.h"
#include "server/observe/statistics.h"

namespace gemmd {

using RawGemmService =
    v1::Gemm::WithRawCallbackMethod_Matmul<v1::Gemm::WithRawCallbackMethod_MatmulStream<
        v1::Gemm::WithRawCallbackMethod_Estimate<v1::Gemm::Service>>>;

class GemmService final : public RawGemmService {
 public:
  // The arguments outlive the service.
  GemmService(Admission* admission, Statistics* statistics, const Clock* clock)
      : admission_(admission), statistics_(statistics), clock_(clock) {}

  // Products whose answers gRPC has not yet handed to the kernel.
  int active_calls() const { return active_calls_; }

  grpc::ServerUnaryReactor* Matmul(grpc::CallbackServerContext* context,
                                   const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override;

  // Not built yet.
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* MatmulStream(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* Estimate(grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;

 private:
  Admission* const admission_;
  Statistics* const statistics_;
  const Clock* const clock_;
  std::atomic<int> active_calls_{0};
};

}  // namespace gemmd
