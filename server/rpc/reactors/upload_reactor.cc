#include "server/rpc/reactors/upload_reactor.h"

#include <algorithm>
#include <utility>

#include "base/time/units.h"
#include "gemmd/v1/operands.pb.h"
#include "server/rpc/calls/caller.h"
#include "server/rpc/codec/decode.h"
#include "server/rpc/codec/operands_codec.h"
#include "server/rpc/codec/status.h"
#include "server/scheduling/draining.h"
#include "server/tenants/retry_after.h"

namespace gemmd {
UploadReactor::UploadReactor(OperandStore* store, const Router* router, CallWatch* watch,
                             const RequestLimits& limits, std::atomic<int>* active_uploads,
                             Tenant tenant, grpc::CallbackServerContext* context)
    : store_(store),
      router_(router),
      watch_(watch),
      limits_(limits),
      active_uploads_(active_uploads),
      context_(context),
      tenant_(std::move(tenant)) {
  absl::Status status = watch_->Add(this, PeerOf(*context), HeaderBytesOf(*context));
  const MutexLock lock(mutex_);
  progress_ = Progress(progress_limit(), watch_->clock().Now());
  if (!status.ok()) {
    Answer(std::move(status));
    return;
  }
  Read();
}

void UploadReactor::Read() {
  SetDue(progress_.due());
  StartRead(&incoming_);
}

void UploadReactor::OnReadDone(bool ok) {
  const MutexLock lock(mutex_);
  if (is_answered_) return;
  SetDue(kNoDeadline);
  absl::Status status;
  if (ok) {
    CountMessage(incoming_.Length());
    status = Handle(incoming_);
    incoming_.Clear();
    if (status.ok() && !stream_->resident()) {
      if (AwaitsEnd()) return;
      if (!stream_->outcome().has_value()) {
        Read();
        return;
      }
      status = EndOf(*stream_->outcome());
    }
  } else if (stream_ == nullptr) {
    status = absl::InvalidArgumentError("the upload ended before its begin");
  } else {
    if (AwaitsEnd()) return;
    // Where the stream broke nobody hears the answer.
    status = EndOf(stream_->outcome().value_or(absl::OkStatus()));
  }
  Answer(std::move(status));
}

bool UploadReactor::AwaitsEnd() {
  return stream_->AwaitEnd([this](const absl::Status& outcome) {
    const MutexLock lock(mutex_);
    if (!is_answered_) Answer(EndOf(outcome));
  });
}

absl::Status UploadReactor::EndOf(const absl::Status& outcome) {
  return outcome.ok() ? stream_->End() : outcome;
}

TimeNs UploadReactor::OnLate(TimeNs now) {
  if (!mutex_.try_lock()) return now;  // a message has come
  const MutexLock lock(mutex_, std::adopt_lock);
  if (now <= due()) return due();  // it was answered just now, and its client has time to read that
  if (is_answered_) {
    context_->TryCancel();
    return kNoDeadline;
  }
  if (!progress_.IsStalled(now)) return progress_.due();
  // A chunk is not seen here before it is whole, but its connection is asked for progress.
  if (now <= progress_.DueOfWhole(watch_->options().message_bytes) && IsMessageComing(now)) {
    return now + kSecond;
  }
  Answer(StalledError("the upload came", progress_limit()));
  return now + progress_limit().window;
}

void UploadReactor::OnDone() {
  watch_->Remove(this);
  {
    const MutexLock lock(mutex_);
    if (has_begun_) --*active_uploads_;
  }
  delete this;
}

absl::Status UploadReactor::Handle(const grpc::ByteBuffer& bytes) {
  const ReceivedMessage received(bytes);
  v1::UploadRequest message;
  PayloadViews payload;
  if (absl::Status s = ParseMessage(received, &message, &payload); !s.ok()) return s;
  switch (message.event_case()) {
    case v1::UploadRequest::kBegin: {
      if (stream_ != nullptr) return absl::InvalidArgumentError("begin came twice");
      has_begun_ = true;
      ++*active_uploads_;  // before the question: see Router::StartDraining()
      if (router_->draining()) return DrainingError();
      const absl::StatusOr<UploadBegin> begin = DecodeBegin(message.begin(), limits_);
      if (!begin.ok()) return begin.status();
      absl::StatusOr<std::unique_ptr<OperandStore::UploadStream>> stream =
          store_->BeginUpload(tenant_, begin->digest, begin->form, begin->lease, begin->as);
      if (!stream.ok()) return stream.status();
      stream_ = *std::move(stream);
      if (begin->as.has_value()) {
        saved_bytes_ = begin->form.size_bytes() -
                       std::min(begin->form.size_bytes(), begin->as->form.size_bytes());
      }
      return absl::OkStatus();
    }
    case v1::UploadRequest::kChunk: {
      if (stream_ == nullptr) return absl::InvalidArgumentError("a chunk came before begin");
      const absl::StatusOr<UploadChunk> chunk = DecodeUploadChunk(message.chunk(), payload);
      if (!chunk.ok()) return chunk.status();
      std::uint64_t received = 0;
      for (const absl::string_view piece : chunk->pieces) received += piece.size();
      const absl::Status status = stream_->Receive(*chunk).status();
      progress_.Record(received, watch_->clock().Now());
      return status;
    }
    case v1::UploadRequest::EVENT_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("event is missing; it must be begin or chunk");
}

void UploadReactor::Answer(absl::Status status) {
  is_answered_ = true;
  SetDue(watch_->clock().Now() + progress_limit().window);
  if (absl::IsResourceExhausted(status))
    status = WithRetryAfter(std::move(status), WaitsFor::kLeases);
  if (!status.ok()) {
    stream_ = nullptr;
    return Finish(ToGrpcStatus(status, context_));
  }
  v1::UploadResponse response;
  *response.mutable_resident() = EncodeInfo(stream_->info());
  response.set_saved_bytes(saved_bytes_);
  stream_ = nullptr;
  const grpc::Slice slice(response.SerializeAsString());
  response_ = grpc::ByteBuffer(&slice, 1);
  StartWriteAndFinish(&response_, {}, grpc::Status::OK);
}

}  // namespace gemmd
