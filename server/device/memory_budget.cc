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
  return *this;
}

void MemoryReservation::Release() {
  if (budget_ != nullptr) budget_->Release(in_flight_bytes_, workspace_bytes_);
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
  return MemoryReservation(this, in_flight_bytes, workspace_bytes);
}

MemoryUsage MemoryBudget::usage() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return usage_;
}

void MemoryBudget::Release(std::uint64_t in_flight_bytes, std::uint64_t workspace_bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  usage_.in_flight_bytes -= in_flight_bytes;
  usage_.workspace_bytes -= workspace_bytes;
}

}  // namespace gemmd
