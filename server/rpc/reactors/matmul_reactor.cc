#include "server/rpc/reactors/matmul_reactor.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gemmd/v1/gemm.pb.h"
#include "server/rpc/codec/decode.h"
#include "server/rpc/codec/encode.h"

namespace gemmd {
namespace {

// A chunk of a unary call has no other request to belong to.
absl::Status CheckRequestIds(const v1::MatmulRequest& message) {
  for (int i = 0; i < message.payload_size(); ++i) {
    if (message.payload(i).request_id() == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("payload[", i, "].request_id is ",
                                                   message.payload(i).request_id(),
                                                   "; in Matmul it must be 0"));
  }
  return absl::OkStatus();
}

}  // namespace

class MatmulReactor::Message final : public Received {
 public:
  using Received::Received;

  absl::Status CopyTo(InlinePayload* payload) const override {
    for (const v1::Chunk& wire : request.payload()) {
      const absl::StatusOr<PayloadChunk> chunk = DecodeChunk(wire, views);
      if (!chunk.ok()) return chunk.status();
      if (absl::Status s = payload->Receive(*chunk); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  v1::MatmulRequest request;
  PayloadViews views;
};

absl::StatusOr<std::unique_ptr<ProductReactor::Received>> MatmulReactor::Decode(
    const grpc::ByteBuffer& message, TimeNs /*arrival*/) {
  auto received = std::make_unique<Message>(message);
  v1::MatmulRequest& request = received->request;
  if (absl::Status s = ParseMessage(received->bytes, &request, &received->views); !s.ok()) {
    return s;
  }
  if (absl::Status s = CheckRequestIds(request); !s.ok()) return s;
  absl::StatusOr<MatmulCall> call = DecodeHeader(request.header());
  if (!call.ok()) return call.status();
  received->call = *std::move(call);
  return received;
}

grpc::ByteBuffer MatmulReactor::Encode(const MatmulOutcome& outcome) {
  return EncodeMatmulResponse(outcome.receipt, outcome.problem.d, outcome.d, outcome.handle);
}

}  // namespace gemmd
