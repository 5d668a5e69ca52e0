#include "server/device/cuda/memory/pinned_pool.h"

#include <algorithm>
#include <utility>

#include "absl/numeric/bits.h"
#include "absl/strings/str_cat.h"
#include "base/math.h"

namespace gemmd {
namespace {

constexpr std::uint64_t kBits = 64;  // of a word

std::uint64_t BitOf(std::uint64_t slab) { return std::uint64_t{1} << (slab % kBits); }

}  // namespace

absl::StatusOr<std::shared_ptr<PinnedPool>> PinnedPool::Create(std::shared_ptr<CudaBackend> backend,
                                                               std::uint64_t slab_bytes,
                                                               std::uint64_t slabs) {
  const absl::StatusOr<void*> memory = backend->AllocatePinned(slabs * slab_bytes);
  if (!memory.ok()) return memory.status();
  return std::shared_ptr<PinnedPool>(
      new PinnedPool(std::move(backend), static_cast<char*>(*memory), slab_bytes, slabs));
}

PinnedPool::PinnedPool(std::shared_ptr<CudaBackend> backend, char* memory, std::uint64_t slab_bytes,
                       std::uint64_t slabs)
    : backend_(std::move(backend)),
      memory_(memory),
      slab_bytes_(slab_bytes),
      slabs_(slabs),
      free_(CeilOfRatio(slabs, kBits), 0),
      free_count_(slabs) {
  for (std::uint64_t slab = 0; slab < slabs; ++slab) free_[slab / kBits] |= BitOf(slab);
}

PinnedPool::~PinnedPool() { backend_->FreePinned(memory_); }

absl::StatusOr<HostBuffer> PinnedPool::Take(std::uint64_t count) {
  if (count > slabs_) {
    return absl::InvalidArgumentError(absl::StrCat("the result needs ", count * slab_bytes_,
                                                   " bytes of pinned host memory, which has ",
                                                   slabs_ * slab_bytes_));
  }
  HostBuffer buffer;
  buffer.reserve(count);
  {
    const MutexLock lock(mutex_);
    if (count > free_count_) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the result needs ", count * slab_bytes_, " bytes of pinned host memory; ",
                       free_count_ * slab_bytes_, " of ", slabs_ * slab_bytes_, " are free"));
    }
    for (std::uint64_t i = 0; i < count; ++i) {
      buffer.push_back({memory_ + TakeLocked(1) * slab_bytes_, slab_bytes_, nullptr});
    }
  }
  for (HostPiece& piece : buffer) piece.owner = Own(piece.data, 1);
  return buffer;
}

std::optional<HostPiece> PinnedPool::TakeInOnePiece(std::uint64_t bytes) {
  const std::uint64_t count = CeilOfRatio(bytes, slab_bytes_);
  if (count == 0) return std::nullopt;
  RelockableMutexLock lock(mutex_);
  if (count > free_count_) return std::nullopt;
  const std::uint64_t first = TakeLocked(count);
  lock.unlock();
  if (first == slabs_) return std::nullopt;
  char* const memory = memory_ + first * slab_bytes_;
  return HostPiece{memory, bytes, Own(memory, count)};
}

std::uint64_t PinnedPool::TakeLocked(std::uint64_t count) {
  std::uint64_t found = 0;  // neighbours before `slab`
  for (std::uint64_t slab = first_free_; slab < slabs_; ++slab) {
    const std::uint64_t word = free_[slab / kBits] >> (slab % kBits);
    if (word == 0) {
      found = 0;
      slab |= kBits - 1;  // the last of its word
      continue;
    }
    if ((word & 1) == 0) {
      found = 0;
      slab += static_cast<std::uint64_t>(absl::countr_zero(word)) - 1;
      continue;
    }
    if (++found < count) continue;
    const std::uint64_t first = slab + 1 - count;
    for (std::uint64_t each = first; each <= slab; ++each) free_[each / kBits] &= ~BitOf(each);
    free_count_ -= count;
    if (count == 1) first_free_ = slab + 1;  // otherwise single ones may lie before
    return first;
  }
  return slabs_;
}

std::shared_ptr<void> PinnedPool::Own(char* slab, std::uint64_t count) {
  return {slab, [pool = shared_from_this(), count](void* memory) {
            pool->GiveBack(static_cast<char*>(memory), count);
          }};
}

bool PinnedPool::Contains(const void* data, std::uint64_t bytes) const {
  const auto* const begin = static_cast<const char*>(data);
  return begin >= memory_ && begin + bytes <= memory_ + slabs_ * slab_bytes_;
}

MemoryUsage PinnedPool::usage() const {
  const MutexLock lock(mutex_);
  MemoryUsage usage;
  usage.limit_bytes = slabs_ * slab_bytes_;
  usage.in_flight_bytes = (slabs_ - free_count_) * slab_bytes_;
  return usage;
}

void PinnedPool::GiveBack(char* slab, std::uint64_t count) {
  const std::uint64_t first = static_cast<std::uint64_t>(slab - memory_) / slab_bytes_;
  const MutexLock lock(mutex_);
  for (std::uint64_t each = first; each < first + count; ++each) {
    free_[each / kBits] |= BitOf(each);
  }
  free_count_ += count;
  first_free_ = std::min(first_free_, first);
}

}  // namespace gemmd
