// gemmd.v1.Gemm. Thin: decode, call admission, encode.
#pragma once

#include <atomic>

#include "base/sync/mutex.h"
#include "gemmd/v1/gemm.grpc.pb.h"
#include "server/admission/admission.h"
#include "server/observe/statistics.h"
#include "server/rpc/reactors/request_reactor.h"
#include "server/rpc/services/raw_service.h"
#include "server/transfer/session_registry.h"

namespace gemmd {

class GemmService final : public RawService<v1::Gemm> {
 public:
  // The arguments outlive the service.
  GemmService(Admission* admission, Statistics* statistics, const Clock* clock, const Door& door,
              const MatmulSession::Options& session_options);

  // Calls, streams among them, that came before the drain, and that gRPC is not done with.
  int active_calls() const { return active_calls_; }

  // Sets the options of sessions that begin from here on.
  void SetSessionOptions(const MatmulSession::Options& options);

  // Lets streams go on until their requests have ended.
  void StartDraining() { sessions_.StartDraining(); }

 private:
  MatmulSession::Options ReadSessionOptions();
  RequestReactor* AnswerEstimate(const Tenant& tenant, Context* context);

  Admission* const admission_;
  Statistics* const statistics_;
  const Clock* const clock_;
  CallWatch* const watch_;
  const Authorizer* const authorizer_;
  AdaptiveMutex mutex_;
  MatmulSession::Options session_options_ ABSL_GUARDED_BY(mutex_);
  std::atomic<int> active_calls_{0};
  SessionRegistry sessions_;
};

}  // namespace gemmd
