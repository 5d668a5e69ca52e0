#include "server/device/cuda/backend/commands.h"

#include <algorithm>

namespace gemmd {

absl::StatusOr<std::unique_ptr<CudaSlot>> CudaSlot::Create(CudaBackend* backend,
                                                           HostPiece staging) {
  const absl::StatusOr<CudaStream> stream = backend->CreateStream(StreamPriority::kHigh);
  if (!stream.ok()) return stream.status();
  const absl::StatusOr<CudaStream> long_stream = backend->CreateStream(StreamPriority::kNormal);
  if (!long_stream.ok()) return long_stream.status();
  return std::unique_ptr<CudaSlot>(
      new CudaSlot(backend, *stream, *long_stream, std::move(staging)));
}

absl::StatusOr<CudaEvent> CudaSlot::NextEvent() {
  if (used_events_ == events_.size()) {
    absl::StatusOr<CudaEvent> event = backend_->CreateEvent();
    if (!event.ok()) return event;
    events_.push_back(*event);
  }
  return events_[used_events_++];
}

absl::StatusOr<std::vector<CudaEvent>> CreateEvents(CudaBackend* backend, std::size_t count) {
  std::vector<CudaEvent> events;
  for (std::size_t i = 0; i < count; ++i) {
    const absl::StatusOr<CudaEvent> event = backend->CreateEvent();
    if (!event.ok()) return event.status();
    events.push_back(*event);
  }
  return events;
}

void* CudaCommands::Allocate(std::uint64_t bytes, CudaStream stream, BlockLife life) {
  if (!status_.ok()) return nullptr;
  const absl::StatusOr<void*> memory = backend_->Allocate(bytes, stream, life);
  Update(memory.status());
  return memory.ok() ? *memory : nullptr;
}

void CudaCommands::Free(void* memory, CudaStream stream) {
  if (status_.ok()) Update(backend_->Free(memory, stream));
}

CudaEvent CudaCommands::Mark(CudaStream stream) {
  if (!status_.ok()) return nullptr;
  const absl::StatusOr<CudaEvent> event = slot_->NextEvent();
  Update(event.status());
  if (status_.ok()) Update(backend_->Record(*event, stream));
  return status_.ok() ? *event : nullptr;
}

void CudaCommands::Wait(CudaStream stream, CudaEvent event) {
  if (status_.ok()) Update(backend_->Wait(stream, event));
}

void CudaCommands::Copy(CopyDirection direction, const CudaRect& rect, CudaStream stream) {
  if (!status_.ok()) return;
  Update(backend_->Copy(direction, rect, stream));
  CountCopied(direction, rect.width * rect.lines);
}

void CudaCommands::CountCopied(CopyDirection direction, std::uint64_t bytes) {
  if (!status_.ok()) return;
  if (direction == CopyDirection::kToDevice) copied_.in += bytes;
  if (direction == CopyDirection::kFromDevice) copied_.out += bytes;
}

void CudaCommands::CopySpans(absl::Span<const CopySpan> spans, CudaStream stream) {
  for (; status_.ok() && !spans.empty();
       spans.remove_prefix(std::min(spans.size(), kMaxCopySpans))) {
    Update(backend_->CopySpans(spans.first(std::min(spans.size(), kMaxCopySpans)), stream));
  }
}

void CudaCommands::Zero(void* memory, std::uint64_t bytes, CudaStream stream) {
  if (status_.ok() && bytes != 0) Update(backend_->Zero(memory, bytes, stream));
}

void CudaCommands::Launch(CudaBackend::LaunchFunction launch, CudaStream stream) {
  if (status_.ok()) Update(backend_->Launch(std::move(launch), stream));
}

}  // namespace gemmd
