// One unary Matmul, from its bytes to its answer.
#pragma once

#include <atomic>
#include <memory>

#include "gemmd/v1/gemm.pb.h"
#include "grpcpp/grpcpp.h"
#include "server/admission/admission.h"
#include "server/observe/statistics.h"
#include "server/rpc/codec/decode.h"
#include "server/rpc/codec/encode.h"
#include "server/rpc/reactors/request_reactor.h"

namespace gemmd {

class MatmulReactor final : public RequestReactor {
 public:
  // Starts at once; deletes itself when gRPC is done with it. The arguments outlive it.
  // `active_calls` counts the reactors that live, have their message, and came before the drain.
  MatmulReactor(Admission* admission, Statistics* statistics, const Clock* clock,
                std::atomic<int>* active_calls, CallWatch* watch, Tenant tenant,
                grpc::CallbackServerContext* context);

  void OnCancel() override { admission_->Cancel(request_id_); }

 private:
  ~MatmulReactor() override = default;

  void OnMessage(const grpc::ByteBuffer& message) override;
  void OnNoMessage(absl::StatusCode code) override { without_message_ = code; }
  void OnEnd() override;

  // The message of a call, which waits with it if it waits for memory.
  struct Received {
    explicit Received(const grpc::ByteBuffer& request) : bytes(request), size(request.Length()) {}

    const ReceivedMessage bytes;
    const std::uint64_t size;
    v1::MatmulRequest message;
    PayloadViews payload;
    RequestTimes times;
  };

  absl::Status Start(const grpc::ByteBuffer& request);
  void OnAdmitted(Received* received, absl::StatusOr<std::unique_ptr<AdmittedMatmul>> admitted);
  absl::Status Submit(Received* received, std::unique_ptr<AdmittedMatmul> admitted);
  void Refuse(const absl::Status& status);
  void OnFinished(MatmulOutcome outcome);

  Admission* const admission_;
  Statistics* const statistics_;
  const Clock* const clock_;
  std::atomic<int>* const active_calls_;
  const Tenant tenant_;
  const bool came_before_drain_;
  const std::uint64_t request_id_;
  bool has_message_ = false;
  absl::StatusCode without_message_ = absl::StatusCode::kCancelled;
  std::uint64_t sent_bytes_ = 0;
  TimeNs send_start_ = 0;
};

}  // namespace gemmd
