#include "server/device/cuda/pinned_pool.h"

#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace gemmd {

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
    : backend_(std::move(backend)), memory_(memory), slab_bytes_(slab_bytes), slabs_(slabs) {
  for (std::uint64_t slab = 0; slab < slabs; ++slab) free_.insert(memory + slab * slab_bytes);
}

PinnedPool::~PinnedPool() { backend_->FreePinned(memory_); }

absl::StatusOr<HostBuffer> PinnedPool::Take(std::uint64_t count) {
  if (count > slabs_) {
    return absl::InvalidArgumentError(absl::StrCat("the result needs ", count * slab_bytes_,
                                                   " bytes of pinned host memory, which has ",
                                                   slabs_ * slab_bytes_));
  }
  std::vector<char*> taken;
  {
    const std::lock_guard<AdaptiveMutex> lock(mutex_);
    if (count > free_.size()) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the result needs ", count * slab_bytes_, " bytes of pinned host memory; ",
                       free_.size() * slab_bytes_, " of ", slabs_ * slab_bytes_, " are free"));
    }
    const auto end = std::next(free_.begin(), static_cast<std::ptrdiff_t>(count));
    taken.assign(free_.begin(), end);
    free_.erase(free_.begin(), end);
  }
  HostBuffer buffer;
  for (char* const slab : taken) buffer.push_back({slab, slab_bytes_, Own(slab, 1)});
  return buffer;
}

std::optional<HostPiece> PinnedPool::TakeInOnePiece(std::uint64_t bytes) {
  const std::uint64_t count = (bytes + slab_bytes_ - 1) / slab_bytes_;
  const std::lock_guard<AdaptiveMutex> lock(mutex_);
  if (count == 0 || count > free_.size()) return std::nullopt;
  auto first = free_.begin();
  std::uint64_t found = 0;  // neighbours from `first` on
  for (auto slab = free_.begin(); slab != free_.end(); ++slab) {
    if (found == 0 || *slab != *first + found * slab_bytes_) {
      first = slab;
      found = 0;
    }
    if (++found == count) {
      char* const memory = *first;
      free_.erase(first, std::next(slab));
      return HostPiece{memory, bytes, Own(memory, count)};
    }
  }
  return std::nullopt;
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
  const std::lock_guard<AdaptiveMutex> lock(mutex_);
  MemoryUsage usage;
  usage.limit_bytes = slabs_ * slab_bytes_;
  usage.in_flight_bytes = (slabs_ - free_.size()) * slab_bytes_;
  return usage;
}

void PinnedPool::GiveBack(char* slab, std::uint64_t count) {
  const std::lock_guard<AdaptiveMutex> lock(mutex_);
  for (std::uint64_t i = 0; i < count; ++i) free_.insert(slab + i * slab_bytes_);
}

}  // namespace gemmd
