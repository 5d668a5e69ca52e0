// Which way each launch takes: at once on the caller's thread, or through the feeder.
#include <algorithm>
#include <utility>

#include "server/device/cuda/cuda_device.h"
#include "server/device/rows.h"
#include "server/device/slices.h"

namespace gemmd {
namespace {

// Works whose inputs take no more go in groups: several fit a slot.
constexpr std::uint64_t kMaxGroupedBytes = 64 << 10;
constexpr SliceSteps kSliceSteps{256, 256, false, true};  // multiples of every kernel's tile

// One after another in the same launch.
void Append(IssuedWork next, IssuedWork* issued) {
  issued->status.Update(std::move(next.status));
  if (next.last != nullptr) issued->last = next.last;
  issued->stages.insert(issued->stages.end(), next.stages.begin(), next.stages.end());
  issued->copied.in += next.copied.in;
  issued->copied.out += next.copied.out;
}

}  // namespace

BatchForm CudaDevice::FormOf(const DeviceWork& work) const {
  if (small_issuer_->HasRows(work)) return BatchForm::kRows;
  const PreparedWork prepared = Prepare(work, options_.panel_bytes);
  return SmallIssuer::IsShort(prepared) && prepared.block.inputs_bytes <= kMaxGroupedBytes
             ? BatchForm::kGroup
             : BatchForm::kAlone;
}

std::shared_ptr<SlicedWork> CudaDevice::Cut(const DeviceWork& work, double slice_us) {
  DeviceWork placed = work;
  UseInPlace(&placed);
  std::vector<Panel> blocks =
      CutIntoSlices(LandedProblem(work.problem), work.plan, traits_, kSliceSteps, slice_us);
  if (blocks.size() < 2) return nullptr;
  auto sliced = std::make_shared<SlicedCudaWork>(backend_, large_issuer_.get(), std::move(placed),
                                                 std::move(blocks));
  // Memory was reserved for the work's own panels.
  const std::uint64_t reserved = Prepare(work, options_.panel_bytes).block.total_bytes;
  return sliced->prepared().block.total_bytes <= reserved ? sliced : nullptr;
}

void CudaDevice::Submit(DeviceLaunch launch, Callback done) {
  auto item = std::make_unique<Item>(std::move(launch));
  item->done = std::move(done);
  for (DeviceWork& work : item->launch.works) UseInPlace(&work);
  if (item->launch.form == BatchForm::kRows && !ReserveForRows(item.get())) {
    item->launch.form = BatchForm::kGroup;  // one by one: the same bits
  }
  item->slot = TakeSlot();
  if (item->slot != nullptr && lost().ok()) {
    if (std::optional<IssuedWork> issued = IssueQuickly(*item)) {
      item->issued = *std::move(issued);
      // Where memory is fragmented, the feeder waits until works before this one end.
      if (item->issued.last != nullptr || !absl::IsResourceExhausted(item->issued.status)) {
        Watch(std::move(item));
        return;
      }
    }
  }
  feeder_->Post(0, [this, item = std::move(item)]() mutable { IssueOnFeeder(std::move(item)); });
}

bool CudaDevice::ReserveForRows(Item* item) {
  // Each work's own reservation covers its rows and its plan's workspace.
  std::uint64_t workspace_bytes = item->launch.rows_plan.workspace_bytes;
  for (const DeviceWork& work : item->launch.works) {
    if (!small_issuer_->HasRows(work)) return false;
    workspace_bytes -= std::min(workspace_bytes, work.plan.workspace_bytes);
  }
  if (workspace_bytes == 0) return true;
  absl::StatusOr<MemoryReservation> reservation = memory_.Reserve(0, workspace_bytes);
  if (!reservation.ok()) return false;
  item->reservation = *std::move(reservation);
  return true;
}

std::optional<IssuedWork> CudaDevice::IssueQuickly(const Item& item) const {
  const std::vector<DeviceWork>& works = item.launch.works;
  if (item.launch.form == BatchForm::kSlice) return std::nullopt;
  if (item.launch.form == BatchForm::kRows) {
    DeviceWork joined;
    joined.problem = JoinedRows(works);
    joined.plan = item.launch.rows_plan;
    joined.buffers.bias = works.front().buffers.bias;
    joined.buffers.b_scales = works.front().buffers.b_scales;
    joined.resident.b = works.front().resident.b;
    joined.resident.bias = works.front().resident.bias;
    joined.resident.b_scales = works.front().resident.b_scales;
    const Problem landed = LandedProblem(joined.problem);
    const PreparedWork prepared =
        PrepareInPanels(joined, joined.resident.which(), {{0, landed.m, 0, landed.n}});
    return small_issuer_->IssueRows(works, prepared, item.slot.get());
  }
  std::vector<PreparedWork> prepared;
  prepared.reserve(works.size());
  for (const DeviceWork& work : works) prepared.push_back(Prepare(work, options_.panel_bytes));
  if (!SmallIssuer::Fit(prepared, *item.slot)) return std::nullopt;
  return small_issuer_->IssueTogether(std::move(prepared), item.slot.get());
}

void CudaDevice::IssueOnFeeder(ItemPtr item) {
  if (item->slot == nullptr) {
    const MutexLock lock(mutex_);
    while (free_slots_.empty() && lost_.ok()) slot_is_free_.wait(mutex_);
    if (!free_slots_.empty()) {
      item->slot = std::move(free_slots_.back());
      free_slots_.pop_back();
    }
  }
  item->issued = {};
  if (lost().ok()) {
    const std::optional<IssuedWork> quick =
        IssueInTime(nullptr, [&] { return IssueQuickly(*item); });
    if (quick.has_value()) {
      item->issued = *quick;
    } else if (item->launch.form == BatchForm::kSlice) {
      auto& sliced = static_cast<SlicedCudaWork&>(*item->launch.sliced);
      const auto issue = [&] {
        return std::make_optional(sliced.Issue(item->launch.slice, item->slot.get(), ring_.get()));
      };
      item->issued = IssueInTime(nullptr, issue).value();
    } else {
      for (const DeviceWork& work : item->launch.works) {
        const PreparedWork prepared = Prepare(work, options_.panel_bytes);
        const auto issue = [&] {
          return std::make_optional(large_issuer_->Issue(prepared, item->slot.get(), ring_.get()));
        };
        Append(IssueInTime(item->issued.last, issue).value(), &item->issued);
        if (!item->issued.status.ok()) break;
      }
    }
  }
  Watch(std::move(item));
}

std::optional<IssuedWork> CudaDevice::IssueInTime(
    CudaEvent own, absl::FunctionRef<std::optional<IssuedWork>()> issue) {
  while (true) {
    std::optional<IssuedWork> issued = issue();
    const bool is_out_of_memory =
        issued.has_value() && issued->last == nullptr && absl::IsResourceExhausted(issued->status);
    if (!is_out_of_memory || !lost().ok()) return issued;
    // The reservation promised the bytes, so fragments must stand in the way: they go with
    // what is under way. Without any, somebody else has the memory.
    if (own != nullptr) {
      if (!WaitUntilDone(own).ok()) return issued;
      own = nullptr;
      continue;
    }
    const MutexLock lock(mutex_);
    const std::size_t under_way = under_way_;
    if (under_way == 0) return issued;
    while (under_way_ >= under_way && lost_.ok()) slot_is_free_.wait(mutex_);
  }
}

std::unique_ptr<CudaSlot> CudaDevice::TakeSlot() {
  const MutexLock lock(mutex_);
  if (free_slots_.empty()) return nullptr;
  std::unique_ptr<CudaSlot> slot = std::move(free_slots_.back());
  free_slots_.pop_back();
  return slot;
}

}  // namespace gemmd
