#include "server/rpc/reactors/download_reactor.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "gemmd/v1/operands.pb.h"
#include "server/rpc/codec/decode.h"
#include "server/rpc/codec/operands_codec.h"

namespace gemmd {

void DownloadReactor::OnMessage(const grpc::ByteBuffer& message) {
  if (const absl::Status status = Start(message); !status.ok()) Fail(status);
}

void DownloadReactor::OnEnd() { --*active_downloads_; }

absl::Status DownloadReactor::Start(const grpc::ByteBuffer& request) {
  v1::DownloadRequest message;
  if (absl::Status s = ParseMessage(request, &message); !s.ok()) return s;
  const absl::StatusOr<OperandKey> key = DecodeKey(message);
  if (!key.ok()) return key.status();
  const absl::StatusOr<std::shared_ptr<StoredOperand>> operand = store_->Read(tenant_, *key);
  if (!operand.ok()) return operand.status();
  const OperandForm& form = (*operand)->form();
  for (const PlaneName plane : kPlaneNames) {
    if (form.plane(plane) == nullptr) continue;
    absl::StatusOr<HostBuffer> memory = (*operand)->Planes(plane);
    if (!memory.ok()) return memory.status();
    memory_[plane] = *std::move(memory);
    size_[plane] = form.plane(plane)->size_bytes();
  }
  v1::DownloadResponse head;
  *head.mutable_operand() = EncodeForm(form);
  const grpc::Slice slice(head.SerializeAsString());
  outgoing_ = grpc::ByteBuffer(&slice, 1);
  Write();
  return absl::OkStatus();
}

void DownloadReactor::Write() {
  ExpectRead(outgoing_.Length(), HeldBytes());
  StartWrite(&outgoing_);
}

// Bytes of the planes that are not wholly sent.
std::uint64_t DownloadReactor::HeldBytes() const {
  std::uint64_t bytes = 0;
  for (auto each = next_; each != kPlaneNames.end(); ++each) bytes += size_[*each];
  return bytes;
}

void DownloadReactor::OnWriteDone(bool ok) {
  if (!ok) {
    FinishCall(grpc::Status::CANCELLED);
    return;
  }
  while (next_ != kPlaneNames.end() && offset_ == size_[*next_]) {
    memory_[*next_].clear();
    ++next_;
    offset_ = 0;
  }
  if (next_ == kPlaneNames.end()) {
    FinishCall(grpc::Status::OK);
    return;
  }
  const std::uint64_t bytes = std::min(chunk_bytes_, size_[*next_] - offset_);
  outgoing_ = EncodeDownloadChunk(*next_, memory_[*next_], offset_, bytes);
  offset_ += bytes;
  store_->CountDownloaded(bytes);
  Write();
}

}  // namespace gemmd
