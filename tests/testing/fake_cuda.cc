#include "tests/testing/fake_cuda.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace gemmd::testing {
namespace {

constexpr int kPoison = 0xCD;  // what memory holds before anything is written
constexpr std::int64_t kCommandNs = 1000;
constexpr std::uint64_t kPage = 4096;

std::uint64_t WholePages(std::uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

template <typename Ranges>
bool AnyHolds(const Ranges& ranges, const void* data, std::uint64_t bytes) {
  const auto* const begin = static_cast<const char*>(data);
  return std::any_of(ranges.begin(), ranges.end(), [&](const auto& range) {
    const auto* const first = reinterpret_cast<const char*>(range.first);
    return begin >= first && begin + bytes <= first + range.second;
  });
}

}  // namespace

FakeCuda::FakeCuda(std::uint32_t seed, CudaProperties properties)
    : properties_(std::move(properties)), random_(seed) {}

FakeCuda::~FakeCuda() {
  for (const auto& [memory, bytes] : allocated_) std::free(memory);
  for (const auto& [memory, bytes] : pinned_) std::free(memory);
}

CudaProperties FakeCuda::H200() {
  CudaProperties properties;
  properties.name = "NVIDIA H200";
  properties.major = 9;
  properties.multi_processor_count = 132;
  properties.clock_khz = 1980000;
  properties.memory_clock_khz = 3201000;
  properties.memory_bus_width_bits = 6144;
  properties.total_memory_bytes = std::uint64_t{141} << 30;
  properties.free_memory_bytes = std::uint64_t{140} << 30;
  return properties;
}

CudaProperties FakeCuda::MigSlice() {
  CudaProperties properties = H200();
  properties.name = "NVIDIA H200 MIG 1g.18gb";
  properties.multi_processor_count = 16;
  properties.total_memory_bytes = std::uint64_t{16} << 30;
  properties.free_memory_bytes = properties.total_memory_bytes;
  return properties;
}

void FakeCuda::FailCall(const std::string& method, absl::Status status, int skip) {
  const MutexLock lock(mutex_);
  faults_[method] = {skip, std::move(status)};
}

void FakeCuda::Stall() {
  const MutexLock lock(mutex_);
  stalled_ = true;
}

void FakeCuda::LoseDevice(absl::Status status) {
  const MutexLock lock(mutex_);
  lost_ = std::move(status);
}

std::uint64_t FakeCuda::allocated_bytes() const {
  const MutexLock lock(mutex_);
  return allocated_bytes_;
}

std::uint64_t FakeCuda::pinned_bytes() const {
  const MutexLock lock(mutex_);
  std::uint64_t sum = 0;
  for (const auto& [memory, bytes] : pinned_) sum += bytes;
  return sum;
}

std::uint64_t FakeCuda::commands() const {
  const MutexLock lock(mutex_);
  return commands_;
}

std::size_t FakeCuda::most_busy_streams() const {
  const MutexLock lock(mutex_);
  return most_busy_streams_;
}

absl::Status FakeCuda::ReservePool(std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  if (absl::Status s = CheckCall("ReservePool"); !s.ok()) return s;
  if (bytes > properties_.free_memory_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("the device has no ", bytes, " bytes"));
  }
  pool_bytes_ = bytes;
  return absl::OkStatus();
}

absl::StatusOr<void*> FakeCuda::Allocate(std::uint64_t bytes, CudaStream stream, BlockLife) {
  const MutexLock lock(mutex_);
  if (absl::Status s = CheckCall("Allocate"); !s.ok()) return s;
  if (bytes > pool_bytes_ - allocated_bytes_) {
    // Memory that is waited for in stream order counts as taken until the wait is over.
    RunSome();
    if (bytes > pool_bytes_ - allocated_bytes_) return absl::ResourceExhaustedError("the pool");
  }
  void* const memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  allocated_[memory] = bytes;
  allocated_bytes_ += bytes;
  Push(stream, [memory, bytes](const LaunchTarget&) {
    std::memset(memory, kPoison, bytes);
    return absl::OkStatus();
  });
  return memory;
}

absl::Status FakeCuda::Free(void* memory, CudaStream stream) {
  const MutexLock lock(mutex_);
  if (absl::Status s = CheckCall("Free"); !s.ok()) return s;
  Push(stream, [this, memory](const LaunchTarget&) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    allocated_bytes_ -= allocated_.at(memory);
    allocated_.erase(memory);
    std::free(memory);
    return absl::OkStatus();
  });
  return absl::OkStatus();
}

absl::StatusOr<void*> FakeCuda::AllocatePinned(std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  if (absl::Status s = CheckCall("AllocatePinned"); !s.ok()) return s;
  void* const memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  pinned_[static_cast<char*>(memory)] = bytes;
  return memory;
}

void FakeCuda::FreePinned(void* memory) {
  const MutexLock lock(mutex_);
  pinned_.erase(static_cast<char*>(memory));
  std::free(memory);
}

absl::Status FakeCuda::RegisterPinned(void* memory, std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  if (absl::Status s = CheckCall("RegisterPinned"); !s.ok()) return s;
  // An old size of zero maps shared memory a second time.
  void* const alias = mremap(memory, 0, WholePages(bytes), MREMAP_MAYMOVE);
  if (alias == MAP_FAILED || mprotect(memory, WholePages(bytes), PROT_NONE) != 0) {
    return absl::InternalError("RegisterPinned: not a mapped file");
  }
  registered_[static_cast<char*>(memory)] = {bytes, static_cast<char*>(alias)};
  return absl::OkStatus();
}

void FakeCuda::UnregisterPinned(void* memory) {
  const MutexLock lock(mutex_);
  const auto found = registered_.find(static_cast<char*>(memory));
  if (found == registered_.end()) return;
  munmap(found->second.alias, WholePages(found->second.bytes));
  registered_.erase(found);
}

absl::StatusOr<CudaSpan> FakeCuda::OpenIpcMemory(absl::string_view handle) {
  const MutexLock lock(mutex_);
  if (absl::Status s = CheckCall("OpenIpcMemory"); !s.ok()) return s;
  const auto found = exported_.find(std::string(handle));
  if (found == exported_.end()) return absl::InternalError("OpenIpcMemory: invalid handle");
  ++open_ipc_memory_;
  return found->second;
}

void FakeCuda::CloseIpcMemory(void*) {
  const MutexLock lock(mutex_);
  --open_ipc_memory_;
}

void FakeCuda::ExportIpcMemory(const std::string& handle, CudaSpan span) {
  const MutexLock lock(mutex_);
  exported_[handle] = span;
}

int FakeCuda::open_ipc_memory() const {
  const MutexLock lock(mutex_);
  return open_ipc_memory_;
}

std::uint64_t FakeCuda::registered_bytes() const {
  const MutexLock lock(mutex_);
  std::uint64_t sum = 0;
  for (const auto& [memory, registered] : registered_) sum += registered.bytes;
  return sum;
}

std::uint64_t FakeCuda::copied_in_place_bytes() const {
  const MutexLock lock(mutex_);
  return copied_in_place_bytes_;
}

std::uint64_t FakeCuda::crossed_bytes() const {
  const MutexLock lock(mutex_);
  return crossed_bytes_;
}

bool FakeCuda::IsPinned(const void* data, std::uint64_t bytes) const {
  return AnyHolds(pinned_, data, bytes);
}

bool FakeCuda::IsReachable(const void* data, std::uint64_t bytes) const {
  return IsPinned(data, bytes) || AnyHolds(allocated_, data, bytes);
}

char* FakeCuda::ForCopies(const void* host) const {
  auto* const address = static_cast<char*>(const_cast<void*>(host));
  auto next = registered_.upper_bound(address);
  if (next == registered_.begin()) return address;
  const auto& [begin, registered] = *--next;
  return address < begin + registered.bytes ? registered.alias + (address - begin) : address;
}

absl::StatusOr<CudaStream> FakeCuda::CreateStream(StreamPriority) {
  const MutexLock lock(mutex_);
  if (absl::Status s = CheckCall("CreateStream"); !s.ok()) return s;
  streams_.push_back(std::make_unique<Stream>());
  return reinterpret_cast<CudaStream>(streams_.back().get());
}

absl::StatusOr<CudaEvent> FakeCuda::CreateEvent() {
  const MutexLock lock(mutex_);
  if (absl::Status s = CheckCall("CreateEvent"); !s.ok()) return s;
  events_.push_back(std::make_unique<Event>());
  return reinterpret_cast<CudaEvent>(events_.back().get());
}

absl::Status FakeCuda::Record(CudaEvent event, CudaStream stream) {
  const MutexLock lock(mutex_);
  if (absl::Status s = CheckCall("Record"); !s.ok()) return s;
  Event& recorded = EventOf(event);
  Push(stream, [this, &recorded, count = ++recorded.recorded](const LaunchTarget&)
                   ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                     recorded.done = std::max(recorded.done, count);
                     recorded.time_ns = time_ns_;
                     return absl::OkStatus();
                   });
  return absl::OkStatus();
}

absl::Status FakeCuda::Wait(CudaStream stream, CudaEvent event) {
  const MutexLock lock(mutex_);
  if (absl::Status s = CheckCall("Wait"); !s.ok()) return s;
  Command command;
  command.wait_for = &EventOf(event);
  command.wait_count = command.wait_for->recorded;
  StreamOf(stream).push_back(std::move(command));
  return absl::OkStatus();
}

absl::StatusOr<bool> FakeCuda::IsDone(CudaEvent event) {
  const MutexLock lock(mutex_);
  if (absl::Status s = CheckCall("IsDone"); !s.ok()) return s;
  RunSome();
  if (!lost_.ok()) return lost_;
  return EventOf(event).done == EventOf(event).recorded;
}

absl::StatusOr<std::int64_t> FakeCuda::ElapsedNs(CudaEvent from, CudaEvent to) {
  const MutexLock lock(mutex_);
  if (absl::Status s = CheckCall("ElapsedNs"); !s.ok()) return s;
  return EventOf(to).time_ns - EventOf(from).time_ns;
}

absl::Status FakeCuda::Copy(CopyDirection direction, const CudaRect& rect, CudaStream stream) {
  const MutexLock lock(mutex_);
  if (absl::Status s = CheckCall("Copy"); !s.ok()) return s;
  const auto* const host =
      static_cast<const char*>(direction == CopyDirection::kToDevice ? rect.from : rect.to);
  const bool is_pinned = std::any_of(pinned_.begin(), pinned_.end(), [host](const auto& range) {
    return host >= range.first && host < range.first + range.second;
  });
  const bool is_in_place = direction != CopyDirection::kWithinDevice && ForCopies(host) != host;
  if (direction != CopyDirection::kWithinDevice && !is_pinned && !is_in_place) {
    return absl::InternalError("Copy: the host memory is not pinned");
  }
  if (is_in_place) copied_in_place_bytes_ += rect.width * rect.lines;
  if (direction != CopyDirection::kWithinDevice) crossed_bytes_ += rect.width * rect.lines;
  if (rect.width == 0 || rect.lines == 0 || rect.to_pitch < rect.width ||
      rect.from_pitch < rect.width) {
    return absl::InternalError(absl::StrCat("Copy: ", rect.lines, " lines of ", rect.width,
                                            " bytes, pitches ", rect.from_pitch, " and ",
                                            rect.to_pitch));
  }
  Push(stream, [rect, to = ForCopies(rect.to), from = ForCopies(rect.from)](const LaunchTarget&) {
    for (std::uint64_t line = 0; line < rect.lines; ++line) {
      std::memcpy(to + line * rect.to_pitch, from + line * rect.from_pitch, rect.width);
    }
    return absl::OkStatus();
  });
  return absl::OkStatus();
}

absl::Status FakeCuda::CopySpans(absl::Span<const CopySpan> spans, CudaStream stream) {
  const MutexLock lock(mutex_);
  if (absl::Status s = CheckCall("CopySpans"); !s.ok()) return s;
  if (spans.empty() || spans.size() > kMaxCopySpans) return absl::InternalError("CopySpans: count");
  for (const CopySpan& span : spans) {
    if (!IsReachable(span.from, span.bytes) || !IsReachable(span.to, span.bytes)) {
      return absl::InternalError("CopySpans: memory that the device does not reach");
    }
    if (IsPinned(span.from, span.bytes) != IsPinned(span.to, span.bytes)) {
      crossed_bytes_ += span.bytes;
    }
  }
  Push(stream, [copies = std::vector<CopySpan>(spans.begin(), spans.end())](const LaunchTarget&) {
    for (const CopySpan& span : copies) std::memcpy(span.to, span.from, span.bytes);
    return absl::OkStatus();
  });
  return absl::OkStatus();
}

absl::Status FakeCuda::Zero(void* memory, std::uint64_t bytes, CudaStream stream) {
  const MutexLock lock(mutex_);
  if (absl::Status s = CheckCall("Zero"); !s.ok()) return s;
  Push(stream, [memory, bytes](const LaunchTarget&) {
    std::memset(memory, 0, bytes);
    return absl::OkStatus();
  });
  return absl::OkStatus();
}

absl::Status FakeCuda::Launch(LaunchFunction launch, CudaStream stream) {
  const MutexLock lock(mutex_);
  if (absl::Status s = CheckCall("Launch"); !s.ok()) return s;
  Push(stream, std::move(launch));
  return absl::OkStatus();
}

absl::Status FakeCuda::CheckCall(const std::string& method) {
  if (!lost_.ok()) return lost_;
  const auto fault = faults_.find(method);
  if (fault == faults_.end() || fault->second.first-- > 0) return absl::OkStatus();
  absl::Status status = std::move(fault->second.second);
  faults_.erase(fault);
  if (absl::IsUnavailable(status)) lost_ = status;
  return status;
}

void FakeCuda::Push(CudaStream stream, LaunchFunction run) {
  Command command;
  command.run = std::move(run);
  StreamOf(stream).push_back(std::move(command));
  const auto busy = std::count_if(streams_.begin(), streams_.end(),
                                  [](const auto& each) { return !each->empty(); });
  most_busy_streams_ = std::max(most_busy_streams_, static_cast<std::size_t>(busy));
}

void FakeCuda::RunSome() {
  constexpr std::uint32_t kMost = 8;
  for (std::uint32_t left = random_() % kMost; left > 0 && RunOne();) --left;
}

bool FakeCuda::RunOne() {
  if (stalled_ || !lost_.ok()) return false;
  std::vector<Stream*> ready;
  for (const auto& stream : streams_) {
    if (stream->empty()) continue;
    const Command& next = stream->front();
    if (next.wait_for == nullptr || next.wait_for->done >= next.wait_count) {
      ready.push_back(stream.get());
    }
  }
  if (ready.empty()) return false;
  Stream& stream = *ready[random_() % ready.size()];
  Command command = std::move(stream.front());
  stream.pop_front();
  ++commands_;
  time_ns_ += kCommandNs;
  if (command.run == nullptr) return true;
  emulator::Session session;
  LaunchTarget target;
  target.emulator = &session;
  // As on a GPU, a kernel that fails while it runs takes the device with it.
  if (absl::Status status = command.run(target); !status.ok()) {
    lost_ = absl::UnavailableError(status.message());
  }
  return true;
}

}  // namespace gemmd::testing
