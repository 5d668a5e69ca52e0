#include "server/rpc/reactors/model_infer_reactor.h"

#include <utility>

#include "server/rpc/calls/caller.h"
#include "server/rpc/oip/infer_response.h"

namespace gemmd {

class ModelInferReactor::Message final : public Received {
 public:
  using Received::Received;

  absl::Status CopyTo(InlinePayload* payload) const override {
    for (const PayloadChunk& chunk : product.payload) {
      if (absl::Status s = payload->Receive(chunk); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  PayloadViews raw;
  InferProduct product;  // its call is Received's
};

absl::StatusOr<std::unique_ptr<ProductReactor::Received>> ModelInferReactor::Decode(
    const grpc::ByteBuffer& message, TimeNs arrival) {
  arrival_ = arrival;
  auto received = std::make_unique<Message>(message);
  // Gone when it is mapped: it may take many times the memory of its bytes.
  inference::ModelInferRequest request;
  absl::Status status = ParseMessage(received->bytes, &request, &received->raw);
  if (!status.ok()) return status;
  absl::StatusOr<InferProduct> product = decoder_.Decode(
      request, received->raw, {tenant(), PeerOf(*context()), arrival}, &known_model_);
  if (!product.ok()) return product.status();
  received->product = *std::move(product);
  received->call = std::move(received->product.call);
  answer_ = std::move(received->product.answer);
  return received;
}

grpc::ByteBuffer ModelInferReactor::Encode(const MatmulOutcome& outcome) {
  return EncodeInferResponse(answer_, outcome.receipt, outcome.problem.d, outcome.d);
}

void ModelInferReactor::OnProductEnd(const absl::Status& status, const Receipt& receipt) {
  decoder_.RecordEnd(tenant().key(), known_model_, status, receipt, arrival_);
}

}  // namespace gemmd
