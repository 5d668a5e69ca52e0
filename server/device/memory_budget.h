// Counts a device's configured bytes, so that running out is an answer and never a
// crash. Counts only: the memory itself belongs to the device.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "base/sync/mutex.h"

namespace gemmd {

struct MemoryUsage {
  std::uint64_t limit_bytes = 0;
  std::uint64_t resident_bytes = 0;
  std::uint64_t workspace_bytes = 0;
  std::uint64_t in_flight_bytes = 0;

  std::uint64_t free_bytes() const {
    return limit_bytes - resident_bytes - workspace_bytes - in_flight_bytes;
  }
};

// Bytes held from a budget until destroyed. Movable; may outlive the budget.
class MemoryReservation {
 public:
  MemoryReservation() = default;
  MemoryReservation(MemoryReservation&& other) noexcept { *this = std::move(other); }
  MemoryReservation& operator=(MemoryReservation&& other) noexcept;
  ~MemoryReservation() { Release(); }

  void Release();

 private:
  friend class MemoryBudget;
  // The counts of a budget, shared with its reservations: some of these outlive the server, held by
  // what gRPC still sends.
  struct Count {
    AdaptiveMutex mutex;
    MemoryUsage usage ABSL_GUARDED_BY(mutex);
  };
  MemoryReservation(std::shared_ptr<Count> count, std::uint64_t in_flight_bytes,
                    std::uint64_t workspace_bytes, std::uint64_t resident_bytes)
      : count_(std::move(count)),
        in_flight_bytes_(in_flight_bytes),
        workspace_bytes_(workspace_bytes),
        resident_bytes_(resident_bytes) {}

  std::shared_ptr<Count> count_;
  std::uint64_t in_flight_bytes_ = 0;
  std::uint64_t workspace_bytes_ = 0;
  std::uint64_t resident_bytes_ = 0;
};

// Thread-safe. Invariant: the parts never sum to more than the limit.
class MemoryBudget {
 public:
  explicit MemoryBudget(std::uint64_t limit_bytes) { count_->usage.limit_bytes = limit_bytes; }

  // RESOURCE_EXHAUSTED, naming what was asked, free and the limit: does not fit now.
  absl::StatusOr<MemoryReservation> Reserve(std::uint64_t in_flight_bytes,
                                            std::uint64_t workspace_bytes);
  // As Reserve(), for an operand that stays.
  absl::StatusOr<MemoryReservation> ReserveResident(std::uint64_t bytes);

  MemoryUsage usage() const;

 private:
  const std::shared_ptr<MemoryReservation::Count> count_ =
      std::make_shared<MemoryReservation::Count>();
};

}  // namespace gemmd
