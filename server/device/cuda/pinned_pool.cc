#include "server/device/cuda/pinned_pool.h"

#include <utility>

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
  // Backwards, so that the first slabs, which are the warmest, are taken first.
  for (std::uint64_t slab = slabs; slab > 0; --slab) {
    free_.push_back(memory + (slab - 1) * slab_bytes_);
  }
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
    const std::lock_guard<std::mutex> lock(mutex_);
    if (count > free_.size()) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the result needs ", count * slab_bytes_, " bytes of pinned host memory; ",
                       free_.size() * slab_bytes_, " of ", slabs_ * slab_bytes_, " are free"));
    }
    taken.assign(free_.end() - static_cast<std::ptrdiff_t>(count), free_.end());
    free_.resize(free_.size() - count);
  }
  HostBuffer buffer;
  for (char* const slab : taken) {
    buffer.push_back(
        {slab, slab_bytes_, std::shared_ptr<void>(slab, [pool = shared_from_this()](void* memory) {
           pool->GiveBack(static_cast<char*>(memory));
         })});
  }
  return buffer;
}

bool PinnedPool::Contains(const void* data, std::uint64_t bytes) const {
  const auto* const begin = static_cast<const char*>(data);
  return begin >= memory_ && begin + bytes <= memory_ + slabs_ * slab_bytes_;
}

MemoryUsage PinnedPool::usage() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  MemoryUsage usage;
  usage.limit_bytes = slabs_ * slab_bytes_;
  usage.in_flight_bytes = (slabs_ - free_.size()) * slab_bytes_;
  return usage;
}

void PinnedPool::GiveBack(char* slab) {
  const std::lock_guard<std::mutex> lock(mutex_);
  free_.push_back(slab);
}

}  // namespace gemmd
