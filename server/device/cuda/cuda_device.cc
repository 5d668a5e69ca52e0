#include "server/device/cuda/cuda_device.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/device/cuda/errors.h"
#include "server/device/cuda/traits.h"

namespace gemmd {
namespace {

constexpr std::uint64_t kLargeSlab = 1 << 20;
constexpr std::uint64_t kSmallSlab = 64 << 10;
constexpr std::uint64_t kSmallShare = 8;  // of the results' memory is in small slabs
constexpr std::uint64_t kRingSlabs = 32;
// After this long without progress the completion thread sleeps between looks.
constexpr TimeNs kSpinNs = 2000000;
constexpr std::chrono::microseconds kNap(20);

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
      gatherers_(options.staging_threads) {}

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
  staging_ = pool(kLargeSlab, kRingSlabs + slots + 1);
  if (!status.ok()) return status;

  for (CudaStream* stream : {&streams_.copy_in, &streams_.compute, &streams_.copy_out}) {
    const absl::StatusOr<CudaStream> made = backend_->CreateStream();
    if (!made.ok()) return made.status();
    *stream = *made;
  }
  std::vector<CudaEvent> events;
  for (std::uint64_t i = 0; i < kRingSlabs; ++i) {
    const absl::StatusOr<CudaEvent> event = backend_->CreateEvent();
    if (!event.ok()) return event.status();
    events.push_back(*event);
  }
  ring_ =
      std::make_unique<StagingRing>(backend_.get(), take(staging_, kRingSlabs), events, &gatherers_,
                                    [this](CudaEvent event) { return WaitUntilDone(event); });
  for (HostPiece& piece : take(staging_, slots + 1)) {
    absl::StatusOr<std::unique_ptr<CudaSlot>> slot = CudaSlot::Create(backend_.get(), piece);
    if (!slot.ok()) return slot.status();
    free_slots_.push_back(*std::move(slot));
  }
  store_slot_ = std::move(free_slots_.back());
  free_slots_.pop_back();
  issuer_ = std::make_unique<WorkIssuer>(
      backend_.get(), std::vector<const PinnedPool*>{large_results_.get(), small_results_.get()},
      streams_);
  feeder_ = std::thread([this] { Feed(); });
  completion_ = std::thread([this] { Complete(); });
  return status;
}

CudaDevice::~CudaDevice() {
  // The feeder first: what it still issues has to be completed.
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    feeder_stops_ = true;
  }
  feed_.notify_all();
  if (feeder_.joinable()) feeder_.join();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
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

Footprint CudaDevice::FootprintOf(const Problem& problem, const Plan& plan,
                                  const Residency& resident) const {
  DeviceWork work;
  work.problem = problem;
  work.plan = plan;
  const BlockLayout block = Prepare(work, options_.panel_bytes, resident).block;
  const std::uint64_t workspace_bytes = block.total_bytes - block.workspace.offset;
  return {block.total_bytes - workspace_bytes, workspace_bytes};
}

absl::StatusOr<HostPiece> CudaDevice::AllocateOperand(std::uint64_t bytes) {
  if (absl::Status status = lost(); !status.ok()) return status;
  // What is small is packed together with the work's other inputs anyway.
  if (bytes > kSmallSlab) {
    if (std::optional<HostPiece> piece = large_results_->TakeInOnePiece(bytes)) {
      return *std::move(piece);
    }
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

void CudaDevice::Submit(DeviceLaunch launch, Callback done) {
  auto item = std::make_unique<Item>();
  item->work = std::move(launch.works.front());
  item->done = std::move(done);
  UseInPlace(&item->work);
  const PreparedWork prepared = Prepare(item->work, options_.panel_bytes);
  if (std::unique_ptr<CudaSlot> slot = TakeSlot(); slot != nullptr) {
    item->slot = std::move(slot);
    if (WorkIssuer::IsSmall(prepared, *item->slot) && lost().ok()) {
      item->issued = issuer_->IssueSmall(prepared, item->slot.get());
      // Where memory is fragmented, the feeder waits until works before this one end.
      if (item->issued.last != nullptr || !absl::IsResourceExhausted(item->issued.status)) {
        Watch(std::move(item));
        return;
      }
    }
  }
  PostToFeeder([this, item = std::move(item)]() mutable { IssueLarge(std::move(item)); });
}

void CudaDevice::IssueLarge(ItemPtr item) {
  if (item->slot == nullptr) {
    std::unique_lock<std::mutex> lock(mutex_);
    slot_is_free_.wait(lock, [this] { return !free_slots_.empty() || !lost_.ok(); });
    if (!free_slots_.empty()) {
      item->slot = std::move(free_slots_.back());
      free_slots_.pop_back();
    }
  }
  const PreparedWork prepared = Prepare(item->work, options_.panel_bytes);
  while (lost().ok()) {
    item->issued = issuer_->IssueLarge(prepared, item->slot.get(), ring_.get());
    if (item->issued.last != nullptr || !absl::IsResourceExhausted(item->issued.status)) break;
    // The reservation promised the bytes, so fragments must stand in the way: they go with
    // the works that are under way. Without any, somebody else has the memory.
    std::unique_lock<std::mutex> lock(mutex_);
    const std::size_t under_way = watched_.size();
    if (under_way == 0) break;
    slot_is_free_.wait(lock, [&] { return watched_.size() < under_way || !lost_.ok(); });
  }
  Watch(std::move(item));
}

std::unique_ptr<CudaSlot> CudaDevice::TakeSlot() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (free_slots_.empty()) return nullptr;
  std::unique_ptr<CudaSlot> slot = std::move(free_slots_.back());
  free_slots_.pop_back();
  return slot;
}

void CudaDevice::PostToFeeder(Task task) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  feed_.notify_one();
}

void CudaDevice::Feed() {
  while (true) {
    std::unique_lock<std::mutex> lock(mutex_);
    feed_.wait(lock, [this] { return feeder_stops_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    std::move(task)();
  }
}

void CudaDevice::Watch(ItemPtr item) {
  const TimeNs now = clock_->Now();
  item->issued_at = now;
  absl::Status status = lost();
  if (status.ok() && IsDeviceLost(item->issued.status)) {
    Lose(item->issued.status);
    status = lost();
  }
  if (!status.ok() || item->issued.last == nullptr) {
    if (status.ok()) status = item->issued.status;
    Finish(std::move(item), std::move(status), now);
    return;
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (watched_.empty()) last_progress_ = now;
    watched_.push_back(std::move(item));
  }
  watch_.notify_one();
}

void CudaDevice::Complete() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    watch_.wait(lock, [this] { return completion_stops_ || !watched_.empty(); });
    if (watched_.empty()) return;
    absl::StatusOr<std::vector<ItemPtr>> done = TakeDoneLocked();
    const TimeNs now = clock_->Now();
    if (done.ok() && !done->empty()) last_progress_ = now;
    const TimeNs last_progress = last_progress_;
    absl::Status failure = done.ok() ? StalledSince(last_progress) : done.status();
    lock.unlock();
    if (!failure.ok()) {
      Lose(failure);
    } else {
      for (ItemPtr& item : *done) {
        absl::Status status = item->issued.status;
        Finish(std::move(item), std::move(status), now);
      }
    }
    lock.lock();
    // Looking costs the device nothing and its results are wanted soon; a long kernel is
    // worth a sleep.
    if (now - last_progress > kSpinNs && !watched_.empty()) watch_.wait_for(lock, kNap);
  }
}

absl::StatusOr<std::vector<CudaDevice::ItemPtr>> CudaDevice::TakeDoneLocked() {
  std::vector<ItemPtr> done;
  for (auto position = watched_.begin(); position != watched_.end();) {
    const absl::StatusOr<bool> is_done = backend_->IsDone((*position)->issued.last);
    if (!is_done.ok()) {
      // What was done a moment ago is told with the rest: its data may be wrong too.
      for (ItemPtr& item : done) watched_.push_back(std::move(item));
      return is_done.status();
    }
    if (*is_done) {
      done.push_back(std::move(*position));
      position = watched_.erase(position);
    } else {
      ++position;
    }
  }
  return done;
}

void CudaDevice::Finish(ItemPtr item, absl::Status status, TimeNs now) {
  DeviceResult result;
  if (status.ok()) result.spans = SpansOf(*item, now);
  result.status = std::move(status);
  // The slot is free before the callback, which may submit the next work.
  if (item->slot != nullptr) {
    item->slot->Reset();
    const std::lock_guard<std::mutex> lock(mutex_);
    free_slots_.push_back(std::move(item->slot));
  }
  slot_is_free_.notify_all();
  item->work = {};  // what it holds is free before its end is told
  std::move(item->done)(std::move(result));
}

std::vector<StageSpan> CudaDevice::SpansOf(const Item& item, TimeNs now) const {
  // The device's clock tells how long before the last mark each stage was; the host's tells
  // when that mark was seen.
  std::vector<StageSpan> spans;
  for (const TimedStage& stage : item.issued.stages) {
    const absl::StatusOr<std::int64_t> length = backend_->ElapsedNs(stage.begin, stage.end);
    const absl::StatusOr<std::int64_t> to_last = backend_->ElapsedNs(stage.end, item.issued.last);
    if (!length.ok() || !to_last.ok()) continue;
    const TimeNs end = now - *to_last;
    spans.push_back({stage.stage, end - *length, end});
  }
  return spans;
}

absl::Status CudaDevice::lost() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return lost_;
}

void CudaDevice::Lose(const absl::Status& status) {
  std::vector<ItemPtr> items;
  absl::Status lost;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!lost_.ok()) return;
    lost_ = lost = absl::UnavailableError(
        absl::StrCat("device ", traits_.name, " is lost: ", status.message()));
    items.swap(watched_);
  }
  options_.on_lost(lost);
  const TimeNs now = clock_->Now();
  for (ItemPtr& item : items) Finish(std::move(item), lost, now);
  slot_is_free_.notify_all();
}

absl::Status CudaDevice::StalledSince(TimeNs since) const {
  constexpr TimeNs kMillisecond = 1000000;
  if (clock_->Now() - since <= options_.stall_timeout_ms * kMillisecond) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("no work ended for ", options_.stall_timeout_ms, " ms"));
}

absl::Status CudaDevice::WaitUntilDone(CudaEvent event) {
  const TimeNs start = clock_->Now();
  while (true) {
    if (absl::Status status = lost(); !status.ok()) return status;
    const absl::StatusOr<bool> is_done = backend_->IsDone(event);
    if (!is_done.ok()) return is_done.status();
    if (*is_done) return absl::OkStatus();
    if (absl::Status status = StalledSince(start); !status.ok()) {
      Lose(status);
      return status;
    }
    std::this_thread::yield();
  }
}

}  // namespace gemmd
