#include "server/device/cuda/planes/resident.h"

#include <algorithm>

#include "kernels/gemm.h"
#include "server/device/cuda/planes/landing.h"

namespace gemmd {

absl::StatusOr<std::shared_ptr<CUevent_st>> EventPool::Take() {
  CudaEvent event = nullptr;
  {
    const MutexLock lock(mutex_);
    if (!spare_.empty()) {
      event = spare_.back();
      spare_.pop_back();
    }
  }
  if (event == nullptr) {
    const absl::StatusOr<CudaEvent> created = backend_->CreateEvent();
    if (!created.ok()) return created.status();
    event = *created;
  }
  return std::shared_ptr<CUevent_st>(event, [pool = shared_from_this()](CudaEvent unused) {
    const MutexLock lock(pool->mutex_);
    pool->spare_.push_back(unused);
  });
}

std::uint64_t ResidentBytes(const MatrixLayout& landed) {
  constexpr std::uint64_t kAlignment = 256;
  const std::uint64_t bytes = LandedBytes(landed);
  return std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
}

MatrixLayout KeptLayout(const MatrixLayout& d) {
  MatrixLayout kept = d;
  kept.leading_dimension = PaddedLine(kept);
  return kept;
}

}  // namespace gemmd
