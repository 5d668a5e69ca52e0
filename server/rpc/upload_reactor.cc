#include "server/rpc/upload_reactor.h"

#include <utility>

#include "gemmd/v1/operands.pb.h"
#include "server/admission/retry_after.h"
#include "server/rpc/decode.h"
#include "server/rpc/operands_codec.h"
#include "server/rpc/status.h"
#include "server/rpc/tenant.h"

namespace gemmd {
namespace {

// Leases run out in seconds to minutes: asking more often would not help.
constexpr std::int64_t kRetryMs = 1000;

}  // namespace

UploadReactor::UploadReactor(OperandStore* store, const Router* router, const RequestLimits& limits,
                             grpc::CallbackServerContext* context, grpc::ByteBuffer* response)
    : store_(store), router_(router), limits_(limits), context_(context), response_(response) {
  absl::StatusOr<Tenant> tenant = TenantOf(*context);
  if (!tenant.ok()) {
    Answer(tenant.status());
    return;
  }
  tenant_ = *std::move(tenant);
  StartRead(&incoming_);
}

void UploadReactor::OnReadDone(bool ok) {
  absl::Status status;
  if (ok) {
    status = Handle(incoming_);
    if (status.ok() && !session_->resident()) {
      incoming_.Clear();
      StartRead(&incoming_);
      return;
    }
  } else if (session_ == nullptr) {
    status = absl::InvalidArgumentError("the upload ended before its begin");
  } else {
    status = session_->End();  // of a broken stream nobody hears it
  }
  Answer(std::move(status));
}

absl::Status UploadReactor::Handle(const grpc::ByteBuffer& bytes) {
  const ReceivedMessage received(bytes);
  v1::UploadRequest message;
  PayloadViews payload;
  if (absl::Status s = ParseMessage(received, &message, &payload); !s.ok()) return s;
  switch (message.event_case()) {
    case v1::UploadRequest::kBegin: {
      if (session_ != nullptr) return absl::InvalidArgumentError("begin came twice");
      if (router_->draining()) {
        return absl::UnavailableError("the server is draining: use another replica");
      }
      const absl::StatusOr<UploadBegin> begin = DecodeBegin(message.begin(), limits_);
      if (!begin.ok()) return begin.status();
      absl::StatusOr<std::unique_ptr<OperandStore::Session>> session =
          store_->BeginUpload(tenant_, begin->digest, begin->form, begin->lease);
      if (!session.ok()) return session.status();
      session_ = *std::move(session);
      return absl::OkStatus();
    }
    case v1::UploadRequest::kChunk: {
      if (session_ == nullptr) return absl::InvalidArgumentError("a chunk came before begin");
      const absl::StatusOr<UploadChunk> chunk = DecodeUploadChunk(message.chunk(), payload);
      if (!chunk.ok()) return chunk.status();
      return session_->Receive(*chunk).status();
    }
    case v1::UploadRequest::EVENT_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("event is missing; it must be begin or chunk");
}

void UploadReactor::Answer(absl::Status status) {
  if (status.ok()) {
    v1::UploadResponse response;
    *response.mutable_resident() = EncodeInfo(session_->info());
    const grpc::Slice slice(response.SerializeAsString());
    *response_ = grpc::ByteBuffer(&slice, 1);
  } else if (absl::IsResourceExhausted(status)) {
    status = WithRetryAfter(std::move(status), kRetryMs);
  }
  session_ = nullptr;
  Finish(ToGrpcStatus(status, context_));
}

}  // namespace gemmd
