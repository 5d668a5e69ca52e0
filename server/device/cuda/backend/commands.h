// One launch in flight on a CUDA device: what it uses, and the commands it is made of.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/device/cuda/backend/backend.h"
#include "server/device/device.h"
#include "server/device/host_buffer.h"
#include "server/observe/receipt.h"

namespace gemmd {

// The streams, events and staging memory of a launch in flight. Used by one launch at a time.
class CudaSlot {
 public:
  // `staging` is pinned memory of its own.
  static absl::StatusOr<std::unique_ptr<CudaSlot>> Create(CudaBackend* backend, HostPiece staging);

  // The stream of work before the panels of large works.
  CudaStream stream() const { return stream_; }
  // The stream of work beside them.
  CudaStream long_stream() const { return long_stream_; }
  const HostPiece& staging() const { return staging_; }

  // An event that nothing else uses until Reset().
  absl::StatusOr<CudaEvent> NextEvent();
  void Reset() { used_events_ = 0; }

 private:
  CudaSlot(CudaBackend* backend, CudaStream stream, CudaStream long_stream, HostPiece staging)
      : backend_(backend),
        stream_(stream),
        long_stream_(long_stream),
        staging_(std::move(staging)) {}

  CudaBackend* const backend_;
  const CudaStream stream_;
  const CudaStream long_stream_;
  const HostPiece staging_;
  std::vector<CudaEvent> events_;  // created when first needed, then kept
  std::size_t used_events_ = 0;
};

// Creates `count` events.
absl::StatusOr<std::vector<CudaEvent>> CreateEvents(CudaBackend* backend, std::size_t count);

// The interval of one stage, by the device's own clock.
struct TimedStage {
  Stage stage = Stage::kCompute;
  CudaEvent begin = nullptr;
  CudaEvent end = nullptr;
};

// Issues commands in the order of the calls. After the first failure the rest do nothing,
// so that a sequence is written without a branch after each call.
class CudaCommands {
 public:
  CudaCommands(CudaBackend* backend, CudaSlot* slot) : backend_(backend), slot_(slot) {}

  // Allocates stream-ordered memory; null after a failure.
  void* Allocate(std::uint64_t bytes, CudaStream stream, BlockLife life = BlockLife::kLaunch);
  void Free(void* memory, CudaStream stream);

  // A mark in the stream; null after a failure.
  CudaEvent Mark(CudaStream stream);
  void Wait(CudaStream stream, CudaEvent event);
  void Copy(CopyDirection direction, const CudaRect& rect, CudaStream stream);
  // It uses as many launches as it takes.
  void CopySpans(absl::Span<const CopySpan> spans, CudaStream stream);
  void Zero(void* memory, std::uint64_t bytes, CudaStream stream);
  void Launch(CudaBackend::LaunchFunction launch, CudaStream stream);

  // Copies that are issued elsewhere, or by CopySpans(), which does not know where it copies.
  void CountCopied(CopyDirection direction, std::uint64_t bytes);
  // Between host and device, by the commands so far.
  const CopiedBytes& copied() const { return copied_; }

  // Takes the status of commands that are issued elsewhere.
  void Update(absl::Status status) { status_.Update(std::move(status)); }

  // The first failure. Taking it lets commands through again, to clean up.
  const absl::Status& status() const { return status_; }
  absl::Status TakeStatus() { return std::exchange(status_, absl::OkStatus()); }

 private:
  CudaBackend* const backend_;
  CudaSlot* const slot_;
  absl::Status status_;
  CopiedBytes copied_;
};

}  // namespace gemmd
