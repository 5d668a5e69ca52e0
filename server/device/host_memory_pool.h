// Host memory for planes and workspaces, within a budget, and used again: pages that a request
// touched before are not cleared and mapped anew for the next one, which would cost a large operand
// more than its copy.
#pragma once

#include <cstdint>
#include <list>
#include <memory>

#include "absl/status/statusor.h"
#include "base/sync/mutex.h"
#include "server/device/host_buffer.h"
#include "server/device/memory_budget.h"

namespace gemmd {

// Thread-safe. Pieces keep the pool alive: what gRPC still sends may outlive the device.
//
// Memory that is kept for reuse is nobody's and counts as free in the budget: it is never more
// than the budget has free when a piece is taken or given back, nor than an eighth of its limit,
// and the host may take it back whenever it runs short (MADV_FREE).
class HostMemoryPool : public std::enable_shared_from_this<HostMemoryPool> {
 public:
  static std::shared_ptr<HostMemoryPool> Create(std::uint64_t limit_bytes);

  MemoryBudget& budget() { return budget_; }

  // One piece, aligned to 64 bytes at least, counted as in flight until its last copy is gone.
  // Bytes are unspecified. RESOURCE_EXHAUSTED: budget or host have no room now.
  // INVALID_ARGUMENT: the budget never has.
  absl::StatusOr<HostPiece> Allocate(std::uint64_t bytes);

  // As Allocate(), of bytes that the caller has reserved in the budget. RESOURCE_EXHAUSTED: the
  // host has no room now.
  absl::StatusOr<HostPiece> AllocateReserved(std::uint64_t bytes);

  std::uint64_t kept_bytes() const;

 private:
  // Memory of a piece, whole.
  struct Block {
    HostPiece memory;
    std::uint64_t capacity = 0;
  };
  class Loan;  // what a piece's owner is

  explicit HostMemoryPool(std::uint64_t limit_bytes) : budget_(limit_bytes) {}

  absl::StatusOr<HostPiece> Lend(std::uint64_t bytes, MemoryReservation reservation);
  // A kept block that fits without much waste, else a new one; its memory is null if the host has
  // none.
  Block Take(std::uint64_t bytes);
  void Keep(Block block);
  // Moves what must go from `kept_` to `dropped`, which ends without the lock.
  void TrimLocked(std::list<Block>& dropped) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  MemoryBudget budget_;
  mutable Mutex mutex_;
  std::list<Block> kept_ ABSL_GUARDED_BY(mutex_);  // the one used last first
  std::uint64_t kept_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace gemmd
