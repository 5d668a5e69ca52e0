#include "server/device/cuda/cuda_device.h"

#include <algorithm>
#include <utility>

#include "server/device/cuda/traits.h"

namespace gemmd {
namespace {

constexpr std::uint64_t kLargeSlab = 1 << 20;
constexpr std::uint64_t kSmallSlab = 64 << 10;
constexpr std::uint64_t kSmallShare = 8;  // of the results' memory is in small slabs
constexpr std::uint64_t kRingSlabs = 32;
constexpr std::uint64_t kLandingSlabs = 16;
constexpr std::uint64_t kFetchSlabs = 8;

}  // namespace

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Create(std::shared_ptr<CudaBackend> backend,
                                                               const Options& options,
                                                               const Clock* clock) {
  std::unique_ptr<CudaDevice> device(new CudaDevice(std::move(backend), options, clock));
  if (absl::Status status = device->Start(); !status.ok()) return status;
  return device;
}

CudaDevice::CudaDevice(std::shared_ptr<CudaBackend> backend, const Options& options,
                       const Clock* clock)
    : backend_(std::move(backend)),
      options_(options),
      clock_(clock),
      traits_(TraitsOf(backend_->properties())),
      memory_(options.memory_bytes),
      unpinned_memory_(HostMemoryPool::Create(options.unpinned_bytes)),
      gatherers_(options.staging_threads),
      landing_gatherers_(options.staging_threads) {}

absl::Status CudaDevice::Start() {
  absl::Status status = backend_->ReservePool(options_.memory_bytes);
  const auto pool = [&](std::uint64_t slab_bytes, std::uint64_t slabs) {
    absl::StatusOr<std::shared_ptr<PinnedPool>> made =
        PinnedPool::Create(backend_, slab_bytes, slabs);
    status.Update(made.status());
    return made.ok() ? *std::move(made) : nullptr;
  };
  const auto take = [&](const std::shared_ptr<PinnedPool>& from, std::uint64_t slabs) {
    absl::StatusOr<HostBuffer> taken = from->Take(slabs);
    status.Update(taken.status());
    return taken.ok() ? *std::move(taken) : HostBuffer();
  };
  const std::uint64_t small_bytes = options_.pinned_bytes / kSmallShare;
  const auto slots = static_cast<std::uint64_t>(options_.in_flight);
  small_results_ = pool(kSmallSlab, small_bytes / kSmallSlab);
  large_results_ = pool(kLargeSlab, (options_.pinned_bytes - small_bytes) / kLargeSlab);
  staging_ = pool(kLargeSlab, kRingSlabs + kLandingSlabs + kFetchSlabs + slots + 2);
  if (!status.ok()) return status;

  for (CudaStream* stream :
       {&streams_.copy_in, &streams_.compute, &streams_.copy_out, &kept_stream_}) {
    const absl::StatusOr<CudaStream> made = backend_->CreateStream(StreamPriority::kNormal);
    if (!made.ok()) return made.status();
    *stream = *made;
  }
  events_ = std::make_shared<EventPool>(backend_);
  const auto make_ring = [&](std::uint64_t slabs, ThreadExecutor* gatherers) {
    std::vector<CudaEvent> events;
    for (std::uint64_t i = 0; i < slabs; ++i) {
      const absl::StatusOr<CudaEvent> event = backend_->CreateEvent();
      status.Update(event.status());
      events.push_back(event.ok() ? *event : nullptr);
    }
    return std::make_unique<StagingRing>(backend_.get(), take(staging_, slabs), events, gatherers,
                                         [this](CudaEvent event) { return WaitUntilDone(event); });
  };
  ring_ = make_ring(kRingSlabs, &gatherers_);
  std::vector<std::unique_ptr<CudaSlot>> free_slots;
  for (HostPiece& piece : take(staging_, slots + 2)) {
    absl::StatusOr<std::unique_ptr<CudaSlot>> slot = CudaSlot::Create(backend_.get(), piece);
    if (!slot.ok()) return slot.status();
    free_slots.push_back(*std::move(slot));
  }
  if (!status.ok()) return status;
  const auto take_slot = [&] {
    std::unique_ptr<CudaSlot> slot = std::move(free_slots.back());
    free_slots.pop_back();
    return slot;
  };
  {
    const MutexLock landing(landing_);
    landing_ring_ = make_ring(kLandingSlabs, &landing_gatherers_);
    landing_slot_ = take_slot();
  }
  {
    const MutexLock fetching(fetching_);
    fetch_slot_ = take_slot();
    fetch_slabs_ = take(staging_, kFetchSlabs);
  }
  if (!status.ok()) return status;
  {
    const MutexLock lock(mutex_);
    free_slots_ = std::move(free_slots);
  }
  const std::vector<const PinnedPool*> pinned = {large_results_.get(), small_results_.get()};
  small_issuer_ = std::make_unique<SmallIssuer>(backend_.get(), pinned);
  large_issuer_ = std::make_unique<LargeIssuer>(backend_.get(), pinned, streams_);
  feeder_ = std::make_unique<KeyedPool>(1);
  completion_ = std::thread([this] { Complete(); });
  return status;
}

CudaDevice::~CudaDevice() {
  // The feeder first: what it still issues has to be completed.
  feeder_.reset();
  {
    const MutexLock lock(mutex_);
    completion_stops_ = true;
  }
  watch_.notify_all();
  if (completion_.joinable()) completion_.join();
}

MemoryUsage CudaDevice::host_memory_usage() const {
  const MemoryUsage small = small_results_->usage();
  const MemoryUsage large = large_results_->usage();
  const MemoryUsage staging = staging_->usage();
  MemoryUsage usage;
  usage.limit_bytes = small.limit_bytes + large.limit_bytes + staging.limit_bytes;
  usage.workspace_bytes = staging.in_flight_bytes;  // taken for good
  usage.in_flight_bytes = small.in_flight_bytes + large.in_flight_bytes;
  return usage;
}

HostMemoryLimits CudaDevice::host_memory_limits() const {
  HostMemoryLimits limits;
  limits.small_plane_bytes = kSmallSlab;
  limits.small_bytes = small_results_->total_bytes();
  limits.large_bytes = large_results_->total_bytes();
  limits.ordinary_bytes = unpinned_memory_->budget().usage().limit_bytes;
  return limits;
}

Footprint CudaDevice::FootprintOf(const Problem& problem, const Plan& plan,
                                  const Residency& resident) const {
  DeviceWork work;
  work.problem = problem;
  work.plan = plan;
  const BlockLayout block = Prepare(work, options_.panel_bytes, resident).block;
  const std::uint64_t workspace_bytes = block.total_bytes - block.workspace.offset;
  const std::uint64_t kept_bytes = resident.d ? ResidentBytes(KeptLayout(problem.d)) : 0;
  return {block.total_bytes - workspace_bytes, workspace_bytes, kept_bytes};
}

absl::StatusOr<HostPiece> CudaDevice::AllocateOperand(std::uint64_t bytes) {
  if (absl::Status status = lost(); !status.ok()) return status;
  // Small results, which come from nowhere else, have a quarter of the small slabs to themselves.
  const bool is_small = bytes <= kSmallSlab;
  const MemoryUsage small = small_results_->usage();
  if (!is_small || small.in_flight_bytes < small.limit_bytes / 4 * 3) {
    const std::shared_ptr<PinnedPool>& pool = is_small ? small_results_ : large_results_;
    if (std::optional<HostPiece> piece = pool->TakeInOnePiece(bytes)) return *std::move(piece);
  }
  return unpinned_memory_->Allocate(bytes);
}

absl::StatusOr<HostBuffer> CudaDevice::AllocateResult(const MatrixLayout& d) {
  if (absl::Status status = lost(); !status.ok()) return status;
  PinnedPool* const pool =
      d.size_bytes() <= kSmallSlab ? small_results_.get() : large_results_.get();
  const std::vector<PlanePiece> pieces = CutPlane(d, pool->slab_bytes());
  absl::StatusOr<HostBuffer> buffer = pool->Take(pieces.size());
  if (!buffer.ok()) return buffer;
  for (std::size_t i = 0; i < pieces.size(); ++i) (*buffer)[i].size_bytes = pieces[i].size_bytes;
  return buffer;
}

}  // namespace gemmd
