// One unary Matmul, from its bytes to its answer.
#pragma once

#include <atomic>

#include "grpcpp/grpcpp.h"
#include "server/admission/admission.h"
#include "server/observe/statistics.h"
#include "server/rpc/encode.h"

namespace gemmd {

class MatmulReactor final : public grpc::ServerUnaryReactor {
 public:
  // Starts at once; deletes itself when gRPC is done with it. The arguments outlive it.
  // `active_calls` counts the reactors that live.
  MatmulReactor(Admission* admission, Statistics* statistics, const Clock* clock,
                std::atomic<int>* active_calls, grpc::CallbackServerContext* context,
                const grpc::ByteBuffer* request, grpc::ByteBuffer* response);

  void OnCancel() override { admission_->Cancel(request_id_); }
  void OnDone() override;

 private:
  ~MatmulReactor() override = default;

  absl::Status Start(const grpc::ByteBuffer& request);
  void OnFinished(MatmulOutcome outcome);

  Admission* const admission_;
  Statistics* const statistics_;
  const Clock* const clock_;
  std::atomic<int>* const active_calls_;
  grpc::CallbackServerContext* const context_;
  grpc::ByteBuffer* const response_;
  const std::uint64_t request_id_;
  std::uint64_t sent_bytes_ = 0;
  TimeNs send_start_ = 0;
};

}  // namespace gemmd
