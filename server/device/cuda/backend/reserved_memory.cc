#include "server/device/cuda/backend/reserved_memory.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/math.h"

namespace gemmd {
namespace {

constexpr std::uint64_t kAlignment = 256;

}  // namespace

ReservedMemory::ReservedMemory(CudaBackend* backend, void* memory, std::uint64_t bytes)
    : backend_(backend), memory_(static_cast<char*>(memory)) {
  free_[0] = {bytes / kAlignment * kAlignment, nullptr};
}

absl::StatusOr<void*> ReservedMemory::Allocate(std::uint64_t bytes, CudaStream stream,
                                               BlockLife life) {
  const std::uint64_t rounded = std::max(kAlignment, RoundUp(bytes, kAlignment));
  const MutexLock lock(mutex_);
  if (absl::Status s = SettleLocked(); !s.ok()) return s;
  Run run;
  if (!FindLocked(rounded, life, false, &run) && !FindLocked(rounded, life, true, &run)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the device has no piece of ", bytes, " bytes now"));
  }
  for (auto range = run.first; range != run.last; ++range) {
    if (range->second.freed == nullptr) continue;
    if (absl::Status s = backend_->Wait(stream, range->second.freed.get()); !s.ok()) return s;
  }
  const std::uint64_t offset = TakeLocked(run, rounded, life);
  taken_[offset] = rounded;
  return memory_ + offset;
}

absl::Status ReservedMemory::Free(void* memory, CudaStream stream) {
  const MutexLock lock(mutex_);
  const auto offset = static_cast<std::uint64_t>(static_cast<char*>(memory) - memory_);
  const auto block = taken_.find(offset);
  if (block == taken_.end()) return absl::InternalError("what is freed is no block");
  absl::StatusOr<Event> freed = NewEventLocked();
  if (!freed.ok()) return freed.status();
  if (absl::Status s = backend_->Record(freed->get(), stream); !s.ok()) return s;
  free_[offset] = {block->second, *std::move(freed)};
  taken_.erase(block);
  return absl::OkStatus();
}

std::uint64_t ReservedMemory::free_bytes() const {
  const MutexLock lock(mutex_);
  std::uint64_t bytes = 0;
  for (const auto& [offset, range] : free_) bytes += range.bytes;
  return bytes;
}

absl::StatusOr<ReservedMemory::Event> ReservedMemory::NewEventLocked() {
  CudaEvent event = nullptr;
  if (spare_events_.empty()) {
    const absl::StatusOr<CudaEvent> created = backend_->CreateEvent();
    if (!created.ok()) return created.status();
    event = *created;
  } else {
    event = spare_events_.back();
    spare_events_.pop_back();
  }
  return Event(event, [this](CudaEvent unused) {
    mutex_.AssertHeld();  // ranges go with the lock held, or with this
    spare_events_.push_back(unused);
  });
}

absl::Status ReservedMemory::SettleLocked() {
  for (auto range = free_.begin(); range != free_.end();) {
    if (range->second.freed != nullptr) {
      const absl::StatusOr<bool> is_done = backend_->IsDone(range->second.freed.get());
      if (!is_done.ok()) return is_done.status();
      if (*is_done) range->second.freed = nullptr;
    }
    const auto before = range == free_.begin() ? free_.end() : std::prev(range);
    if (before != free_.end() && before->first + before->second.bytes == range->first &&
        before->second.freed == nullptr && range->second.freed == nullptr) {
      before->second.bytes += range->second.bytes;
      range = free_.erase(range);
    } else {
      ++range;
    }
  }
  return absl::OkStatus();
}

bool ReservedMemory::FindLocked(std::uint64_t bytes, BlockLife life, bool may_be_in_use,
                                Run* found) {
  bool is_found = false;
  Run run{free_.begin(), free_.begin(), 0};
  std::uint64_t end = 0;  // of the run
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    if (run.bytes == 0 || end != range->first || !may_be_in_use) run = {range, range, 0};
    if (!may_be_in_use && range->second.freed != nullptr) continue;
    run.bytes += range->second.bytes;
    run.last = std::next(range);
    end = range->first + range->second.bytes;
    // Ranges at the run's begin that are not needed are dropped.
    while (run.bytes - run.first->second.bytes >= bytes) {
      run.bytes -= run.first->second.bytes;
      ++run.first;
    }
    if (run.bytes < bytes) continue;
    *found = run;
    is_found = true;
    if (life == BlockLife::kLaunch) break;
  }
  return is_found;
}

std::uint64_t ReservedMemory::TakeLocked(const Run& run, std::uint64_t bytes, BlockLife life) {
  // A block that stays is cut from the run's end.
  const std::uint64_t begin = run.first->first;
  const std::uint64_t end = begin + run.bytes;
  const std::uint64_t offset = life == BlockLife::kStays ? end - bytes : begin;
  const Range front = run.first->second;
  const Range back = std::prev(run.last)->second;
  free_.erase(run.first, run.last);
  // All ranges of the run are needed: only the first and the last can have a remainder.
  if (offset > begin) free_[begin] = {offset - begin, front.freed};
  if (offset + bytes < end) free_[offset + bytes] = {end - offset - bytes, back.freed};
  return offset;
}

}  // namespace gemmd
