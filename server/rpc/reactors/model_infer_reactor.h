// One ModelInfer, from its bytes to its answer.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "grpcpp/grpcpp.h"
#include "server/rpc/oip/infer_decoder.h"
#include "server/rpc/oip/infer_request.h"
#include "server/rpc/reactors/product_reactor.h"

namespace gemmd {

class ModelInferReactor final : public ProductReactor {
 public:
  // Starts at once; deletes itself when gRPC is done with it. The services and the decoder's parts
  // outlive it.
  ModelInferReactor(const Services& services, const InferDecoder& decoder, Tenant tenant,
                    grpc::CallbackServerContext* context)
      : ProductReactor(services, std::move(tenant), context), decoder_(decoder) {}

 private:
  class Message;
  ~ModelInferReactor() override = default;

  absl::StatusOr<std::unique_ptr<Received>> Decode(const grpc::ByteBuffer& message,
                                                   TimeNs arrival) override;
  grpc::ByteBuffer Encode(const MatmulOutcome& outcome) override;
  void OnProductEnd(const absl::Status& status, const Receipt& receipt) override;

  const InferDecoder& decoder_;
  InferAnswer answer_;
  // The model's name, set when the tenant is known to have it: only such models have statistics.
  std::string known_model_;
  TimeNs arrival_ = 0;
};

}  // namespace gemmd
