#include "server/device/memory_budget.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace gemmd {

MemoryReservation& MemoryReservation::operator=(MemoryReservation&& other) noexcept {
  if (this == &other) return *this;
  Release();
  count_ = std::move(other.count_);
  in_flight_bytes_ = other.in_flight_bytes_;
  workspace_bytes_ = other.workspace_bytes_;
  resident_bytes_ = other.resident_bytes_;
  return *this;
}

void MemoryReservation::Release() {
  if (count_ == nullptr) return;
  {
    const MutexLock lock(count_->mutex);
    count_->usage.in_flight_bytes -= in_flight_bytes_;
    count_->usage.workspace_bytes -= workspace_bytes_;
    count_->usage.resident_bytes -= resident_bytes_;
  }
  count_ = nullptr;
}

absl::StatusOr<MemoryReservation> MemoryBudget::Reserve(std::uint64_t in_flight_bytes,
                                                        std::uint64_t workspace_bytes) {
  const MutexLock lock(count_->mutex);
  MemoryUsage& usage = count_->usage;
  const std::uint64_t free = usage.free_bytes();
  // Compared one after the other: their sum could wrap.
  if (in_flight_bytes > free || workspace_bytes > free - in_flight_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "device memory is full: the request needs ", in_flight_bytes, " bytes and ",
        workspace_bytes, " of workspace, and ", free, " of ", usage.limit_bytes, " are free"));
  }
  usage.in_flight_bytes += in_flight_bytes;
  usage.workspace_bytes += workspace_bytes;
  return MemoryReservation(count_, in_flight_bytes, workspace_bytes, 0);
}

absl::StatusOr<MemoryReservation> MemoryBudget::ReserveResident(std::uint64_t bytes) {
  const MutexLock lock(count_->mutex);
  MemoryUsage& usage = count_->usage;
  if (bytes > usage.free_bytes()) {
    return absl::ResourceExhaustedError(absl::StrCat("device memory is full: the operand needs ",
                                                     bytes, " bytes, and ", usage.free_bytes(),
                                                     " of ", usage.limit_bytes, " are free"));
  }
  usage.resident_bytes += bytes;
  return MemoryReservation(count_, 0, 0, bytes);
}

MemoryUsage MemoryBudget::usage() const {
  const MutexLock lock(count_->mutex);
  return count_->usage;
}

}  // namespace gemmd
