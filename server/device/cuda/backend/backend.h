// The CUDA runtime as CudaDevice uses it: one device's memory, streams and events. A seam,
// so that the device's whole logic runs, and fails, in tests without a GPU
// (tests/testing/fake_cuda.h).
//
// Thread-safe. Every status says which call failed; its code is
//   UNAVAILABLE         the device is lost: no further call will work (errors.h)
//   RESOURCE_EXHAUSTED  no memory
//   INTERNAL            anything else
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/gemm.h"

struct CUstream_st;
struct CUevent_st;

namespace gemmd {

using CudaStream = CUstream_st*;
using CudaEvent = CUevent_st*;

// The properties of a device. Names as in cudaDeviceProp.
struct CudaProperties {
  int ordinal = 0;
  std::string name;
  std::string pci_bus_id;  // "0000:1b:00.0"; empty: not known
  int major = 0;
  int minor = 0;
  int multi_processor_count = 0;
  int clock_khz = 0;
  int memory_clock_khz = 0;
  int memory_bus_width_bits = 0;
  std::uint64_t total_memory_bytes = 0;  // of a MIG instance: its own
  std::uint64_t free_memory_bytes = 0;   // when asked
};

// `lines` pieces of `width` bytes, `pitch` bytes apart; pitch is at least width.
struct CudaRect {
  void* to = nullptr;
  std::uint64_t to_pitch = 0;
  const void* from = nullptr;
  std::uint64_t from_pitch = 0;
  std::uint64_t width = 0;
  std::uint64_t lines = 0;
};

enum class CopyDirection : std::uint8_t { kToDevice, kFromDevice, kWithinDevice };

// Blocks that wait go first where their stream is high.
enum class StreamPriority : std::uint8_t { kNormal, kHigh };

// The life of a block of the device's memory: while a launch is under way, or for as long as an
// operand stays.
enum class BlockLife : std::uint8_t { kLaunch, kStays };

// Memory on the device.
struct CudaSpan {
  void* data = nullptr;
  std::uint64_t bytes = 0;
};

class CudaBackend {
 public:
  virtual ~CudaBackend() = default;

  virtual const CudaProperties& properties() const = 0;

  // Takes `bytes` from the device for this process at once; Allocate() gives no more than
  // these in sum. Called once, first.
  virtual absl::Status ReservePool(std::uint64_t bytes) = 0;

  // Stream-ordered, from the pool, aligned to 256 bytes: `stream` waits for its last use.
  virtual absl::StatusOr<void*> Allocate(std::uint64_t bytes, CudaStream stream,
                                         BlockLife life) = 0;
  virtual absl::Status Free(void* memory, CudaStream stream) = 0;

  // Page-locked host memory.
  virtual absl::StatusOr<void*> AllocatePinned(std::uint64_t bytes) = 0;
  virtual void FreePinned(void* memory) = 0;

  // Page-locks memory that is mapped already, from a page's start on, for every device: from
  // then on copies may use it. The CPU does not touch it in between.
  virtual absl::Status RegisterPinned(void* memory, std::uint64_t bytes) = 0;
  virtual void UnregisterPinned(void* memory) = 0;

  // The whole allocation of another process that the cudaIpcMemHandle_t is of.
  virtual absl::StatusOr<CudaSpan> OpenIpcMemory(absl::string_view handle) = 0;
  virtual void CloseIpcMemory(void* memory) = 0;

  // They live as long as the backend.
  virtual absl::StatusOr<CudaStream> CreateStream(StreamPriority priority) = 0;
  virtual absl::StatusOr<CudaEvent> CreateEvent() = 0;

  virtual absl::Status Record(CudaEvent event, CudaStream stream) = 0;
  // Makes later work on `stream` wait for the event's last record.
  virtual absl::Status Wait(CudaStream stream, CudaEvent event) = 0;
  // Returns whether everything before the event's last record has happened.
  virtual absl::StatusOr<bool> IsDone(CudaEvent event) = 0;
  // Nanoseconds from one event to a later one. REQUIRES: both are done.
  virtual absl::StatusOr<std::int64_t> ElapsedNs(CudaEvent from, CudaEvent to) = 0;

  // Host memory is pinned and stays as it is until the copy has happened.
  virtual absl::Status Copy(CopyDirection direction, const CudaRect& rect, CudaStream stream) = 0;
  // Copies many short pieces side by side, by a kernel. Host memory is of AllocatePinned() and
  // stays as it is until the copy has happened. REQUIRES: at most kMaxCopySpans, not empty.
  virtual absl::Status CopySpans(absl::Span<const CopySpan> spans, CudaStream stream) = 0;
  virtual absl::Status Zero(void* memory, std::uint64_t bytes, CudaStream stream) = 0;

  // Queues what `launch` launches on its target.
  using LaunchFunction = absl::AnyInvocable<absl::Status(const LaunchTarget&)>;
  virtual absl::Status Launch(LaunchFunction launch, CudaStream stream) = 0;
};

// The devices this process may use, as CUDA_VISIBLE_DEVICES says, by ordinal.
// FAILED_PRECONDITION: this build, or this machine, has no CUDA; the message says what is
// missing.
absl::StatusOr<std::vector<std::shared_ptr<CudaBackend>>> OpenCudaDevices();

}  // namespace gemmd
