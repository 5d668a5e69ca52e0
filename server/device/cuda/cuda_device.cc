#include "server/device/cuda/cuda_device.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/math.h"
#include "server/device/cuda/launches/out_of_core.h"
#include "server/device/cuda/launches/prepared_work.h"
#include "server/device/cuda/memory/shared_mapping.h"
#include "server/device/cuda/planes/plane.h"
#include "server/device/cuda/planes/resident.h"
#include "server/device/cuda/traits.h"

namespace gemmd {
namespace {

constexpr std::uint64_t kRingSlabs = 32;
constexpr std::uint64_t kLandingSlabs = 16;
constexpr std::uint64_t kFetchSlabs = 8;
constexpr std::uint64_t kDrainSlabs = 16;
constexpr std::uint64_t kOtherSlots = 2;  // to land a plane, and to fetch one

}  // namespace

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Create(std::shared_ptr<CudaBackend> backend,
                                                               const Options& options,
                                                               const Clock* clock) {
  std::unique_ptr<CudaDevice> device(new CudaDevice(std::move(backend), options));
  if (absl::Status status = device->Start(clock); !status.ok()) return status;
  return device;
}

CudaDevice::CudaDevice(std::shared_ptr<CudaBackend> backend, const Options& options)
    : backend_(std::move(backend)),
      options_(options),
      traits_(TraitsOf(backend_->properties())),
      memory_(options.memory_bytes),
      gatherers_(options.staging_threads),
      landing_gatherers_(options.staging_threads) {}

absl::Status CudaDevice::Start(const Clock* clock) {
  if (absl::Status s = backend_->ReservePool(options_.memory_bytes); !s.ok()) return s;
  HostPools::Options host;
  host.pinned_bytes = options_.pinned_bytes;
  host.unpinned_bytes = options_.unpinned_bytes;
  host.staging_slabs = kRingSlabs + kLandingSlabs + kFetchSlabs + kDrainSlabs +
                       static_cast<std::uint64_t>(options_.in_flight) + kOtherSlots;
  absl::StatusOr<std::unique_ptr<HostPools>> pools = HostPools::Create(backend_, host);
  if (!pools.ok()) return pools.status();
  host_ = *std::move(pools);

  CudaStreams streams;
  ResidentMemory::Resources resident;
  for (CudaStream* stream :
       {&streams.copy_in, &streams.compute, &streams.copy_out, &resident.stream}) {
    const absl::StatusOr<CudaStream> made = backend_->CreateStream(StreamPriority::kNormal);
    if (!made.ok()) return made.status();
    *stream = *made;
  }
  absl::StatusOr<std::vector<std::unique_ptr<CudaSlot>>> slots = MakeSlots();
  if (!slots.ok()) return slots.status();
  for (std::unique_ptr<CudaSlot>* slot : {&resident.landing_slot, &resident.fetch_slot}) {
    *slot = std::move(slots->back());
    slots->pop_back();
  }
  const std::uint64_t staging_bytes = slots->front()->staging().size_bytes;
  slots_ = std::make_unique<CudaSlotPool>(*std::move(slots));

  CompletionWatcher::Options watching;
  watching.device = traits_.name;
  watching.stall_timeout_ms = options_.stall_timeout_ms;
  watching.on_lost = [this](const absl::Status& status) {
    options_.on_lost(status);
    slots_->Close();
  };
  watcher_ = std::make_unique<CompletionWatcher>(backend_, std::move(watching), clock);

  absl::StatusOr<std::unique_ptr<DrainRing>> drains = MakeDrains();
  if (!drains.ok()) return drains.status();
  drains_ = *std::move(drains);
  large_issuer_ =
      std::make_unique<LargeIssuer>(backend_.get(), host_->pinned(), streams, drains_.get());

  absl::StatusOr<std::unique_ptr<StagingRing>> ring = MakeRing(kRingSlabs, &gatherers_);
  if (!ring.ok()) return ring.status();
  absl::StatusOr<std::unique_ptr<StagingRing>> landing_ring =
      MakeRing(kLandingSlabs, &landing_gatherers_);
  if (!landing_ring.ok()) return landing_ring.status();
  resident.landing_ring = *std::move(landing_ring);
  absl::StatusOr<HostBuffer> fetch_slabs = host_->staging().Take(kFetchSlabs);
  if (!fetch_slabs.ok()) return fetch_slabs.status();
  resident.fetch_slabs = *std::move(fetch_slabs);

  resident_ = std::make_unique<ResidentMemory>(
      ResidentMemory::Parts{backend_, large_issuer_.get(), &memory_, watcher_.get()},
      std::move(resident));
  queue_ = std::make_unique<LaunchQueue>(
      LaunchQueue::Parts{backend_, &traits_, host_->pinned(), large_issuer_.get(), drains_.get(),
                         &memory_, slots_.get(), watcher_.get(), staging_bytes},
      *std::move(ring), options_.panel_bytes);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::unique_ptr<CudaSlot>>> CudaDevice::MakeSlots() {
  absl::StatusOr<HostBuffer> slabs =
      host_->staging().Take(static_cast<std::uint64_t>(options_.in_flight) + kOtherSlots);
  if (!slabs.ok()) return slabs.status();
  std::vector<std::unique_ptr<CudaSlot>> slots;
  for (HostPiece& slab : *slabs) {
    absl::StatusOr<std::unique_ptr<CudaSlot>> slot =
        CudaSlot::Create(backend_.get(), std::move(slab));
    if (!slot.ok()) return slot.status();
    slots.push_back(*std::move(slot));
  }
  return slots;
}

absl::StatusOr<std::unique_ptr<StagingRing>> CudaDevice::MakeRing(std::uint64_t slabs,
                                                                  ThreadExecutor* gatherers) {
  absl::StatusOr<HostBuffer> taken = host_->staging().Take(slabs);
  if (!taken.ok()) return taken.status();
  return StagingRing::Create(
      backend_.get(), *std::move(taken), gatherers,
      [watcher = watcher_.get()](CudaEvent event) { return watcher->WaitUntilDone(event); });
}

absl::StatusOr<std::unique_ptr<DrainRing>> CudaDevice::MakeDrains() {
  absl::StatusOr<HostBuffer> taken = host_->staging().Take(kDrainSlabs);
  if (!taken.ok()) return taken.status();
  return DrainRing::Create(
      backend_.get(), *std::move(taken), &gatherers_,
      [watcher = watcher_.get()](CudaEvent event) { return watcher->WaitUntilDone(event); });
}

Footprint CudaDevice::FootprintOf(const Problem& problem, const Plan& plan,
                                  const Residency& resident) const {
  DeviceWork work;
  work.problem = problem;
  work.plan = plan;
  const PartCutter cutter(options_.memory_bytes, options_.panel_bytes);
  if (const PartCut parts = cutter.Cut(work, resident); !parts.panels.empty()) {
    return cutter.FootprintOf(work, resident, parts);
  }
  const AllocationLayout block = Prepare(work, options_.panel_bytes, resident).block;
  const std::uint64_t workspace_bytes = block.total_bytes - block.workspace.offset;
  const std::uint64_t kept_bytes = resident.d ? ResidentBytes(KeptLayout(problem.d)) : 0;
  return {block.total_bytes - workspace_bytes, workspace_bytes, kept_bytes};
}

Footprint CudaDevice::GroupsFootprintOf(const DeviceWork& grouped,
                                        const Residency& resident) const {
  const std::uint64_t kept_bytes =
      resident.d ? ResidentBytes(KeptLayout(grouped.problem.d)) : std::uint64_t{0};
  // Those of a slice are under way together. As launches of a stack they find room or wait, so half
  // of the memory will do where they take more.
  if (const std::optional<GroupCut> cut =
          queue_->GroupLaunchesOf(grouped, resident, std::numeric_limits<double>::infinity())) {
    return {std::min(cut->all_bytes, std::max(cut->most_bytes, options_.memory_bytes / 2)), 0,
            kept_bytes};
  }
  std::uint64_t all = 0;
  std::uint64_t most = 0;
  for (const DeviceWork& each : ProductsOf(grouped, 0, grouped.stack.count)) {
    const Footprint one = FootprintOf(each.problem, each.plan, resident);
    const std::uint64_t bytes = one.in_flight_bytes + one.workspace_bytes;
    all += bytes;
    most = std::max(most, bytes);
  }
  return {std::min(all, std::max(most, options_.memory_bytes / 2)), 0, kept_bytes};
}

Footprint CudaDevice::StackFootprintOf(const Problem& problem, const Stack& stack, const Plan& plan,
                                       const Residency& resident) const {
  DeviceWork work;
  work.problem = problem;
  work.stack = stack;
  work.plan = plan;
  const LaunchQueue::StackLaunch launch = queue_->StackLaunchOf(work, resident);
  const Footprint one = FootprintOf(problem, plan, resident);
  // One that goes in parts takes less than its block.
  const std::uint64_t bytes =
      launch.products == 1 ? one.in_flight_bytes + one.workspace_bytes : launch.bytes;
  // Launches that are under way find room or wait for others' ends, so a stack need not have all of
  // its launches' memory at once.
  const std::uint64_t launches = std::min<std::uint64_t>(
      static_cast<std::uint64_t>(max_in_flight()),
      static_cast<std::uint64_t>(CeilOfRatio(stack.count, launch.products)));
  const std::uint64_t room =
      std::max<std::uint64_t>(1, options_.memory_bytes / 2 / std::max<std::uint64_t>(1, bytes));
  return {std::min(launches, room) * bytes, 0, 0};
}

absl::StatusOr<HostPiece> CudaDevice::AllocateOperand(std::uint64_t bytes) {
  if (absl::Status status = watcher_->lost(); !status.ok()) return status;
  return host_->AllocateOperand(bytes);
}

absl::StatusOr<HostBuffer> CudaDevice::AllocateResult(const MatrixLayout& d) {
  if (absl::Status status = watcher_->lost(); !status.ok()) return status;
  return host_->AllocateResult(d);
}

absl::StatusOr<std::shared_ptr<const SharedMapping>> CudaDevice::MapShared(int file,
                                                                           std::uint64_t offset,
                                                                           std::uint64_t bytes) {
  if (absl::Status status = watcher_->lost(); !status.ok()) return status;
  return MapLockedFile(backend_, file, offset, bytes);
}

absl::StatusOr<std::shared_ptr<const SharedMapping>> CudaDevice::MapDeviceMemory(
    absl::string_view handle, std::uint64_t offset, std::uint64_t bytes) {
  if (absl::Status status = watcher_->lost(); !status.ok()) return status;
  return MapIpcMemory(backend_, handle, offset, bytes);
}

void CudaDevice::Submit(DeviceLaunch launch, Callback done) {
  queue_->Submit(std::move(launch), std::move(done));
}

absl::StatusOr<HostPiece> CudaDevice::AllocateResident(std::uint64_t bytes) {
  if (absl::Status status = watcher_->lost(); !status.ok()) return status;
  HostBuffer buffer = AllocateHostBuffer(bytes);
  if (!buffer.empty()) return std::move(buffer.front());
  return absl::ResourceExhaustedError("the host has no memory for an operand");
}

absl::StatusOr<std::shared_ptr<ResidentResult>> CudaDevice::AllocateKept(const MatrixLayout& d) {
  return resident_->AllocateKept(d);
}

absl::StatusOr<std::shared_ptr<const ResidentOperand>> CudaDevice::Store(const Problem& problem,
                                                                         WorkPlane plane,
                                                                         const void* data) {
  return resident_->Store(problem, plane, data);
}

absl::StatusOr<std::unique_ptr<ArrivingOperand>> CudaDevice::BeginStore(const Problem& problem,
                                                                        WorkPlane plane) {
  return resident_->BeginStore(problem, plane);
}

absl::StatusOr<std::shared_ptr<const ResidentOperand>> CudaDevice::StoreAgain(
    const ResidentOperand& operand, const Problem& problem, WorkPlane plane) {
  return resident_->StoreAgain(operand, problem, plane);
}

absl::Status CudaDevice::Fetch(const ResidentOperand& operand, void* to) {
  return resident_->Fetch(operand, to);
}

CopiedBytes CudaDevice::copied() const {
  const CopiedBytes launches = watcher_->copied();
  const CopiedBytes planes = resident_->copied();
  return {launches.in + planes.in, launches.out + planes.out};
}

}  // namespace gemmd
