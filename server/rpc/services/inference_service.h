// inference.GRPCInferenceService: the Open Inference Protocol, in front of the same admission as
// gemmd.v1.Gemm. Thin: decode, call, encode.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "base/sync/mutex.h"
#include "inference/grpc_service.grpc.pb.h"
#include "server/admission/admission.h"
#include "server/observe/statistics.h"
#include "server/regions/named_regions.h"
#include "server/regions/region_table.h"
#include "server/rpc/calls/costly_calls.h"
#include "server/rpc/oip/infer_decoder.h"
#include "server/rpc/oip/model_repository.h"
#include "server/rpc/oip/model_totals.h"
#include "server/rpc/reactors/request_reactor.h"
#include "server/rpc/services/raw_service.h"
#include "server/store/operand_store.h"
#include "server/transfer/session_registry.h"

namespace gemmd {

class InferenceService final : public RawService<inference::GRPCInferenceService> {
 public:
  // All outlive the service.
  struct Parts {
    Admission* admission = nullptr;
    Statistics* statistics = nullptr;
    OperandStore* store = nullptr;
    RegionTable* regions = nullptr;
    ModelRepository* repository = nullptr;
    const Clock* clock = nullptr;
  };

  InferenceService(const Parts& parts, const Door& door, const RequestLimits& limits,
                   const MatmulSession::Options& session_options);

  // Calls, streams among them, that came before the drain, and that gRPC is not done with.
  int active_calls() const { return active_calls_; }

  // Sets the options of streams that begin from here on.
  void SetSessionOptions(const MatmulSession::Options& options);

  // Lets streams go on until their requests have ended.
  void StartDraining() { sessions_.StartDraining(); }

 private:
  MatmulSession::Options ReadSessionOptions();
  void ServeServer();
  void ServeModels();
  void ServeProducts();
  void ServeRepository();
  void ServeSharedMemory();

  // Answers a method by handler(const Tenant&, const std::string& peer, const Request&), an
  // absl::StatusOr<Response> of the method's messages. It must not block.
  template <typename Request, typename Response, typename Handler>
  void ServeUnary(const char* method, Handler handler);

  const Parts parts_;
  CallWatch* const watch_;
  const Authorizer* const authorizer_;
  NamedRegions regions_;
  ModelTotals totals_;
  const InferDecoder decoder_;
  CostlyCalls listings_;
  AdaptiveMutex mutex_;
  MatmulSession::Options session_options_ ABSL_GUARDED_BY(mutex_);
  std::atomic<int> active_calls_{0};
  SessionRegistry sessions_;
};

}  // namespace gemmd
