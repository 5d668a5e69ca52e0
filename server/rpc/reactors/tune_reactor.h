// One Tune, from its bytes to its answer.
#pragma once

#include <string>

#include "gemmd/v1/admin.pb.h"
#include "grpcpp/grpcpp.h"
#include "server/admission/tuner.h"
#include "server/admission/validation.h"
#include "server/rpc/reactors/request_reactor.h"

namespace gemmd {

// The problems of a request, validated. INVALID_ARGUMENT: a field that is not as
// admin.proto says, or operands that no request could carry.
absl::StatusOr<TuningRequest> DecodeTune(const v1::TuneRequest& wire, const RequestLimits& limits);

class TuneReactor final : public RequestReactor {
 public:
  // Starts at once; deletes itself when gRPC is done with it. The arguments outlive it.
  TuneReactor(Tuner* tuner, const RequestLimits& limits, CallWatch* watch, std::string tenant,
              grpc::CallbackServerContext* context);

  void OnCancel() override { tuner_->Cancel(id_); }

 private:
  ~TuneReactor() override = default;

  void OnMessage(const grpc::ByteBuffer& message) override;
  void OnFinished(const absl::StatusOr<TuningReport>& report);

  Tuner* const tuner_;
  const RequestLimits limits_;
  const std::string tenant_;
  const std::uint64_t id_;
};

}  // namespace gemmd
