#include "server/device/host_memory_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace gemmd {
namespace {

// Smaller blocks are left to the allocator.
constexpr std::uint64_t kLeastKept = 1 << 20;
constexpr std::uint64_t kGranularity = 2 << 20;  // a huge page
constexpr std::uint64_t kKeptShare = 8;          // of the budget's limit

std::uint64_t CapacityFor(std::uint64_t bytes) {
  if (bytes < kLeastKept) return bytes;
  return (bytes + kGranularity - 1) / kGranularity * kGranularity;
}

}  // namespace

// Gives the bytes back to the budget first, then the memory to the pool.
class HostMemoryPool::Loan {
 public:
  Loan(std::shared_ptr<HostMemoryPool> pool, MemoryReservation reservation, Block block)
      : pool_(std::move(pool)), reservation_(std::move(reservation)), block_(std::move(block)) {}
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;
  ~Loan() {
    reservation_.Release();
    pool_->Keep(std::move(block_));
  }

 private:
  const std::shared_ptr<HostMemoryPool> pool_;
  MemoryReservation reservation_;
  Block block_;
};

std::shared_ptr<HostMemoryPool> HostMemoryPool::Create(std::uint64_t limit_bytes) {
  return std::shared_ptr<HostMemoryPool>(new HostMemoryPool(limit_bytes));
}

absl::StatusOr<HostPiece> HostMemoryPool::Allocate(std::uint64_t bytes) {
  if (const std::uint64_t limit = budget_.usage().limit_bytes; bytes > limit) {
    return absl::InvalidArgumentError(
        absl::StrCat("a plane has ", bytes, " bytes, and the host keeps ", limit, " for planes"));
  }
  absl::StatusOr<MemoryReservation> reservation = budget_.Reserve(bytes, 0);
  if (!reservation.ok()) return reservation.status();
  return Lend(bytes, *std::move(reservation));
}

absl::StatusOr<HostPiece> HostMemoryPool::AllocateReserved(std::uint64_t bytes) {
  return Lend(bytes, {});
}

absl::StatusOr<HostPiece> HostMemoryPool::Lend(std::uint64_t bytes, MemoryReservation reservation) {
  Block block = Take(bytes);
  if (block.memory.data == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("the host has no ", bytes, " bytes now"));
  }
  char* const data = block.memory.data;
  return HostPiece{
      data, bytes,
      std::make_shared<Loan>(shared_from_this(), std::move(reservation), std::move(block))};
}

HostMemoryPool::Block HostMemoryPool::Take(std::uint64_t bytes) {
  const std::uint64_t capacity = CapacityFor(bytes);
  Block block;
  if (capacity >= kLeastKept) {
    std::list<Block> dropped;
    const MutexLock lock(mutex_);
    const auto fits = std::find_if(kept_.begin(), kept_.end(), [capacity](const Block& kept) {
      return kept.capacity >= capacity && kept.capacity - capacity <= capacity / 8;
    });
    if (fits != kept_.end()) {
      block = std::move(*fits);
      kept_.erase(fits);
      kept_bytes_ -= block.capacity;
    }
    TrimLocked(dropped);
  }
  if (block.memory.data != nullptr) return block;
  HostBuffer buffer = AllocateHostBuffer(capacity);
  if (buffer.empty()) return {};
  return {std::move(buffer.front()), capacity};
}

void HostMemoryPool::Keep(Block block) {
  if (block.capacity < kLeastKept) return;
  // The pages stay, with their bytes, unless the host needs them.
  madvise(block.memory.data, block.capacity, MADV_FREE);
  std::list<Block> dropped;
  const MutexLock lock(mutex_);
  kept_bytes_ += block.capacity;
  kept_.push_front(std::move(block));
  TrimLocked(dropped);
}

void HostMemoryPool::TrimLocked(std::list<Block>& dropped) {
  const MemoryUsage usage = budget_.usage();
  const std::uint64_t most = std::min(usage.limit_bytes / kKeptShare, usage.free_bytes());
  while (kept_bytes_ > most) {
    kept_bytes_ -= kept_.back().capacity;
    dropped.splice(dropped.end(), kept_, std::prev(kept_.end()));
  }
}

std::uint64_t HostMemoryPool::kept_bytes() const {
  const MutexLock lock(mutex_);
  return kept_bytes_;
}

}  // namespace gemmd
