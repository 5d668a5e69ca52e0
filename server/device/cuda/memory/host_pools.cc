#include "server/device/cuda/memory/host_pools.h"

#include <optional>
#include <utility>

#include "server/device/cuda/planes/plane.h"

namespace gemmd {
namespace {

constexpr std::uint64_t kLargeSlab = 1 << 20;
constexpr std::uint64_t kSmallSlab = 64 << 10;
constexpr std::uint64_t kSmallShare = 8;  // of the results' memory is in small slabs

}  // namespace

absl::StatusOr<std::unique_ptr<HostPools>> HostPools::Create(
    const std::shared_ptr<CudaBackend>& backend, const Options& options) {
  std::unique_ptr<HostPools> pools(new HostPools(options.unpinned_bytes));
  absl::Status status;
  const auto make = [&](std::uint64_t slab_bytes, std::uint64_t slabs) {
    absl::StatusOr<std::shared_ptr<PinnedPool>> made =
        PinnedPool::Create(backend, slab_bytes, slabs);
    status.Update(made.status());
    return made.ok() ? *std::move(made) : nullptr;
  };
  const std::uint64_t small_bytes = options.pinned_bytes / kSmallShare;
  pools->small_ = make(kSmallSlab, small_bytes / kSmallSlab);
  pools->large_ = make(kLargeSlab, (options.pinned_bytes - small_bytes) / kLargeSlab);
  pools->staging_ = make(kLargeSlab, options.staging_slabs);
  if (!status.ok()) return status;
  return pools;
}

absl::StatusOr<HostPiece> HostPools::AllocateOrdinaryOperand(std::uint64_t bytes) {
  return unpinned_->Allocate(bytes);
}

MemoryUsage HostPools::usage() const {
  const MemoryUsage small = small_->usage();
  const MemoryUsage large = large_->usage();
  const MemoryUsage staging = staging_->usage();
  MemoryUsage usage;
  usage.limit_bytes = small.limit_bytes + large.limit_bytes + staging.limit_bytes;
  usage.workspace_bytes = staging.in_flight_bytes;  // taken for good
  usage.in_flight_bytes = small.in_flight_bytes + large.in_flight_bytes;
  return usage;
}

HostMemoryLimits HostPools::limits() const {
  HostMemoryLimits limits;
  limits.small_plane_bytes = kSmallSlab;
  limits.small_bytes = small_->total_bytes();
  limits.large_bytes = large_->total_bytes();
  limits.ordinary_bytes = unpinned_->budget().usage().limit_bytes;
  return limits;
}

absl::StatusOr<HostPiece> HostPools::AllocateOperand(std::uint64_t bytes) {
  // Small results, which come from nowhere else, have a quarter of the small slabs to themselves.
  const bool is_small = bytes <= kSmallSlab;
  const MemoryUsage small = small_->usage();
  if (!is_small || small.in_flight_bytes < small.limit_bytes / 4 * 3) {
    const std::shared_ptr<PinnedPool>& pool = is_small ? small_ : large_;
    if (std::optional<HostPiece> piece = pool->TakeInOnePiece(bytes)) return *std::move(piece);
  }
  return unpinned_->Allocate(bytes);
}

absl::StatusOr<HostBuffer> HostPools::AllocateResult(const MatrixLayout& d) {
  PinnedPool* const pool = d.size_bytes() <= kSmallSlab ? small_.get() : large_.get();
  const std::vector<PlanePiece> pieces = CutPlane(d, pool->slab_bytes());
  absl::StatusOr<HostBuffer> buffer = pool->Take(pieces.size());
  if (absl::IsInvalidArgument(buffer.status())) {
    absl::StatusOr<HostPiece> piece = unpinned_->Allocate(d.size_bytes());
    if (!piece.ok()) return piece.status();
    return HostBuffer{*std::move(piece)};
  }
  if (!buffer.ok()) return buffer;
  for (std::size_t i = 0; i < pieces.size(); ++i) (*buffer)[i].size_bytes = pieces[i].size_bytes;
  return buffer;
}

}  // namespace gemmd
