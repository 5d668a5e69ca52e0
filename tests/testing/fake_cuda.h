// A CUDA device in host memory, for tests: streams run their commands in a seeded random
// order that only their own order and events constrain, so that a missing wait shows as a
// wrong result, and memory used after its release as an ASan report. Faults come when a
// test asks for them.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/sync/mutex.h"
#include "server/device/cuda/backend/backend.h"

namespace gemmd::testing {

// Thread-safe.
class FakeCuda : public CudaBackend {
 public:
  explicit FakeCuda(std::uint32_t seed, CudaProperties properties = H200());
  ~FakeCuda() override;

  // The properties that an H200, and a seventh of one as MIG cuts it, report.
  static CudaProperties H200();
  static CudaProperties MigSlice();

  // The next call of that name, after `skip` others, fails with the status. Names as the
  // methods'.
  void FailCall(const std::string& method, absl::Status status, int skip = 0);
  // From now on no command makes progress.
  void Stall();
  // From now on every call fails so.
  void LoseDevice(absl::Status status);

  // Makes the memory what OpenIpcMemory() finds under the handle.
  void ExportIpcMemory(const std::string& handle, CudaSpan span);
  // The number of times that it is open.
  int open_ipc_memory() const;
  // Host memory that is registered now, and bytes copied from and to it.
  std::uint64_t registered_bytes() const;
  std::uint64_t copied_in_place_bytes() const;
  // The bytes that crossed between host and device so far, in either direction, by whatever
  // command.
  std::uint64_t crossed_bytes() const;

  std::uint64_t allocated_bytes() const;
  std::uint64_t pinned_bytes() const;
  // Commands run so far.
  std::uint64_t commands() const;
  // The most streams that had commands waiting at once.
  std::size_t most_busy_streams() const;

  const CudaProperties& properties() const override { return properties_; }
  absl::Status ReservePool(std::uint64_t bytes) override;
  absl::StatusOr<void*> Allocate(std::uint64_t bytes, CudaStream stream, BlockLife life) override;
  absl::Status Free(void* memory, CudaStream stream) override;
  absl::StatusOr<void*> AllocatePinned(std::uint64_t bytes) override;
  void FreePinned(void* memory) override;
  // Takes the memory, which a file is mapped to, away from the CPU until it is given back.
  absl::Status RegisterPinned(void* memory, std::uint64_t bytes) override;
  void UnregisterPinned(void* memory) override;
  absl::StatusOr<CudaSpan> OpenIpcMemory(absl::string_view handle) override;
  void CloseIpcMemory(void* memory) override;
  absl::StatusOr<CudaStream> CreateStream(StreamPriority priority) override;
  absl::StatusOr<CudaEvent> CreateEvent() override;
  absl::Status Record(CudaEvent event, CudaStream stream) override;
  absl::Status Wait(CudaStream stream, CudaEvent event) override;
  absl::StatusOr<bool> IsDone(CudaEvent event) override;
  absl::StatusOr<std::int64_t> ElapsedNs(CudaEvent from, CudaEvent to) override;
  absl::Status Copy(CopyDirection direction, const CudaRect& rect, CudaStream stream) override;
  absl::Status CopySpans(absl::Span<const CopySpan> spans, CudaStream stream) override;
  absl::Status Zero(void* memory, std::uint64_t bytes, CudaStream stream) override;
  absl::Status Launch(LaunchFunction launch, CudaStream stream) override;

 private:
  // Memory that only copies may use, through other addresses.
  struct Registered {
    std::uint64_t bytes = 0;
    char* alias = nullptr;
  };
  struct Event {
    std::uint64_t recorded = 0;  // how often Record() was called
    std::uint64_t done = 0;      // how many of those have happened
    std::int64_t time_ns = 0;    // of the last that happened
  };
  struct Command {
    // Null: ready. Otherwise it waits until that many records of the event have happened.
    const Event* wait_for = nullptr;
    std::uint64_t wait_count = 0;
    LaunchFunction run;  // may be null
  };
  using Stream = std::deque<Command>;

  absl::Status CheckCall(const std::string& method) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsPinned(const void* data, std::uint64_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether the memory is pinned, or a block on the device.
  bool IsReachable(const void* data, std::uint64_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The address at which a copy reaches registered memory; others stay.
  char* ForCopies(const void* host) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Push(CudaStream stream, LaunchFunction run) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunSome() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool RunOne() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Stream& StreamOf(CudaStream stream) { return *reinterpret_cast<Stream*>(stream); }
  static Event& EventOf(CudaEvent event) { return *reinterpret_cast<Event*>(event); }

  const CudaProperties properties_;

  mutable Mutex mutex_;
  std::mt19937 random_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Stream>> streams_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Event>> events_ ABSL_GUARDED_BY(mutex_);
  std::map<void*, std::uint64_t> allocated_ ABSL_GUARDED_BY(mutex_);
  std::map<char*, std::uint64_t> pinned_ ABSL_GUARDED_BY(mutex_);
  std::map<char*, Registered> registered_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, CudaSpan> exported_ ABSL_GUARDED_BY(mutex_);
  int open_ipc_memory_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t copied_in_place_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t crossed_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, std::pair<int, absl::Status>> faults_ ABSL_GUARDED_BY(mutex_);
  absl::Status lost_ ABSL_GUARDED_BY(mutex_);
  bool stalled_ ABSL_GUARDED_BY(mutex_) = false;
  std::uint64_t pool_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t allocated_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t commands_ ABSL_GUARDED_BY(mutex_) = 0;
  std::size_t most_busy_streams_ ABSL_GUARDED_BY(mutex_) = 0;
  std::int64_t time_ns_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace gemmd::testing
