#include "server/device/memory_budget.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace gemmd {

MemoryReservation& MemoryReservation::operator=(MemoryReservation&& other) noexcept {
  if (this == &other) return *this;
  Release();
  budget_ = std::exchange(other.budget_, nullptr);
  in_flight_bytes_ = other.in_flight_bytes_;
  workspace_bytes_ = other.workspace_bytes_;
  resident_bytes_ = other.resident_bytes_;
  return *this;
}

void MemoryReservation::Release() {
  if (budget_ != nullptr) budget_->Release(*this);
  budget_ = nullptr;
}

absl::StatusOr<MemoryReservation> MemoryBudget::Reserve(std::uint64_t in_flight_bytes,
                                                        std::uint64_t workspace_bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::uint64_t free = usage_.free_bytes();
  // Compared one after the other: their sum could wrap.
  if (in_flight_bytes > free || workspace_bytes > free - in_flight_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "device memory is full: the request needs ", in_flight_bytes, " bytes and ",
        workspace_bytes, " of workspace, and ", free, " of ", usage_.limit_bytes, " are free"));
  }
  usage_.in_flight_bytes += in_flight_bytes;
  usage_.workspace_bytes += workspace_bytes;
  return MemoryReservation(this, in_flight_bytes, workspace_bytes, 0);
}

absl::StatusOr<MemoryReservation> MemoryBudget::ReserveResident(std::uint64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (bytes > usage_.free_bytes()) {
    return absl::ResourceExhaustedError(absl::StrCat("device memory is full: the operand needs ",
                                                     bytes, " bytes, and ", usage_.free_bytes(),
                                                     " of ", usage_.limit_bytes, " are free"));
  }
  usage_.resident_bytes += bytes;
  return MemoryReservation(this, 0, 0, bytes);
}

MemoryUsage MemoryBudget::usage() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return usage_;
}

void MemoryBudget::Release(const MemoryReservation& reservation) {
  const std::lock_guard<std::mutex> lock(mutex_);
  usage_.in_flight_bytes -= reservation.in_flight_bytes_;
  usage_.workspace_bytes -= reservation.workspace_bytes_;
  usage_.resident_bytes -= reservation.resident_bytes_;
}

}  // namespace gemmd
