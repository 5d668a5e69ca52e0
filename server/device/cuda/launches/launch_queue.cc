#include "server/device/cuda/launches/launch_queue.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "server/device/cuda/launches/in_place.h"
#include "server/device/cuda/launches/sliced_work.h"
#include "server/device/cuda/planes/landing.h"
#include "server/device/rows.h"
#include "server/device/slices.h"

namespace gemmd {
namespace {

// Works whose inputs take no more go in groups: several fit a slot.
constexpr std::uint64_t kMaxGroupedBytes = 64 << 10;
// A stack's launches: so many panels' bytes, for copies of one to overlap with another's kernel,
// and so many products that whoever waits for the thread that issues them waits for little.
constexpr std::uint64_t kPanelsOfStack = 2;
constexpr std::int64_t kMostTogether = 16384;
constexpr SliceSteps kSliceSteps{256, 256, true};  // multiples of every kernel's tile

}  // namespace

// A launch between Submit() and its callback. It knows nothing of the queue, which ends before.
class LaunchQueue::Item final : public WatchedLaunch {
 public:
  Item(DeviceLaunch given, Device::Callback callback, CudaSlotPool* slots)
      : launch(std::move(given)), done_(std::move(callback)), slots_(slots) {}

  void End(DeviceResult result) override {
    // The slot is free before the callback, which may submit the next work.
    if (slot != nullptr) slots_->GiveBack(std::move(slot));
    // The memory is free before the callback, too.
    prepared.clear();
    launch.works.clear();
    launch.sliced = nullptr;
    reservation.Release();
    std::move(done_)(std::move(result));
  }

  DeviceLaunch launch;
  std::vector<PreparedWork> prepared;  // see PreparedOf(); each points to its work in `launch`
  MemoryReservation reservation;       // beyond what the works' own cover
  std::unique_ptr<CudaSlot> slot;

 private:
  Device::Callback done_;
  CudaSlotPool* const slots_;
};

LaunchQueue::LaunchQueue(Parts parts, std::unique_ptr<StagingRing> ring, std::uint64_t panel_bytes)
    : parts_(std::move(parts)),
      panel_bytes_(panel_bytes),
      cutter_(parts_.memory->usage().limit_bytes, panel_bytes),
      small_issuer_(parts_.backend.get(), parts_.pinned),
      ring_(std::move(ring)),
      feeder_(std::make_unique<KeyedPool>(1)) {}

LaunchQueue::~LaunchQueue() = default;

BatchForm LaunchQueue::FormOf(const DeviceWork& work) const {
  if (small_issuer_.HasRows(work)) return BatchForm::kRows;
  const PreparedWork prepared = Prepare(work, panel_bytes_);
  if (cutter_.MayCut(prepared)) return BatchForm::kAlone;
  return SmallIssuer::IsShort(prepared) && prepared.block.inputs_bytes <= kMaxGroupedBytes
             ? BatchForm::kGroup
             : BatchForm::kAlone;
}

LaunchQueue::StackLaunch LaunchQueue::StackLaunchOf(const DeviceWork& stacked,
                                                    const Residency& resident) const {
  const PreparedWork one = Prepare(stacked, panel_bytes_, resident);
  const std::uint64_t bytes = std::max<std::uint64_t>(1, one.block.total_bytes);
  if (cutter_.MayCut(one)) return {1, bytes, false};
  const auto fit = [&](std::uint64_t room, std::uint64_t of_one) {
    const auto products = static_cast<std::int64_t>(room / std::max<std::uint64_t>(1, of_one));
    return std::clamp<std::int64_t>(products, 1, std::min(kMostTogether, stacked.stack.count));
  };
  if (LayOutStack(stacked, resident).has_value()) {
    const std::int64_t products = fit(kPanelsOfStack * panel_bytes_, bytes);
    return {products, static_cast<std::uint64_t>(products) * bytes, true};
  }
  const std::int64_t products =
      SmallIssuer::IsSmall(one) ? fit(parts_.staging_bytes, one.block.inputs_bytes) : 1;
  return {products, static_cast<std::uint64_t>(products) * bytes, false};
}

std::optional<GroupCut> LaunchQueue::GroupLaunchesOf(const DeviceWork& grouped,
                                                     const Residency& resident,
                                                     double slice_us) const {
  return CutGroups(grouped, resident, cutter_, panel_bytes_, kPanelsOfStack * panel_bytes_,
                   slice_us);
}

std::shared_ptr<SlicedWork> LaunchQueue::Cut(const DeviceWork& work, double slice_us) const {
  if (work.stack.has_groups()) {
    std::optional<GroupCut> cut = GroupLaunchesOf(work, work.resident.which(), slice_us);
    if (!cut.has_value()) return GroupSlices::Make(work, slice_us, false);
    if (cut->parts.size() < 2) return nullptr;
    return std::make_shared<GroupsInParts>(parts_.large_issuer, work, *std::move(cut),
                                           panel_bytes_);
  }
  if (!work.stack.is_one()) {
    const StackLaunch launch = StackLaunchOf(work, work.resident.which());
    const std::int64_t each = std::min(launch.products, work.ProductsWithin(slice_us));
    if (!launch.is_laid_out) return StackSlices::Make(work, each);
    if (each == work.stack.count) return nullptr;
    return std::make_shared<StackInParts>(parts_.large_issuer, work, each);
  }
  // Each slice would decode all of the operand that is not cut.
  if (IsDequantized(work.problem)) return nullptr;
  if (PartCut parts = cutter_.Cut(work); !parts.panels.empty()) {
    return std::make_shared<WorkInParts>(parts_.backend, parts_.large_issuer, work,
                                         std::move(parts), panel_bytes_);
  }
  DeviceWork placed = work;
  UseInPlace(panel_bytes_, cutter_, &placed);
  std::vector<Panel> blocks =
      CutIntoSlices(LandedProblem(work.problem), work.plan, *parts_.traits, kSliceSteps, slice_us);
  if (blocks.size() < 2) return nullptr;
  auto sliced = std::make_shared<WorkInPanels>(parts_.backend, parts_.large_issuer,
                                               std::move(placed), std::move(blocks), panel_bytes_);
  // Memory was reserved for the work's own panels.
  const std::uint64_t reserved = Prepare(work, panel_bytes_).block.total_bytes;
  return sliced->prepared().block.total_bytes <= reserved ? sliced : nullptr;
}

void LaunchQueue::Submit(DeviceLaunch launch, Device::Callback done) {
  if (launch.form == BatchForm::kAlone && !launch.works.front().stack.is_one() &&
      !IsOneLaunch(launch.works.front())) {
    const DeviceWork stacked = std::move(launch.works.front());
    launch = DeviceLaunch::Group(ProductsOf(stacked, 0, stacked.stack.count));
  }
  auto item = std::make_unique<Item>(std::move(launch), std::move(done), parts_.slots);
  for (DeviceWork& work : item->launch.works) {
    // A plane that stays on the device has one matrix, for all products of a stack.
    if (work.stack.is_one()) UseInPlace(panel_bytes_, cutter_, &work);
  }
  if (item->launch.form == BatchForm::kRows && !ReserveForRows(item.get())) {
    item->launch.form = BatchForm::kGroup;  // one by one: the same bits
  }
  item->slot = parts_.slots->TryTake();
  if (item->slot != nullptr && parts_.watcher->lost().ok()) {
    if (std::optional<IssuedWork> issued = IssueQuickly(item.get())) {
      item->issued = *std::move(issued);
      // If memory is fragmented, the feeder waits until works before this one end.
      if (item->issued.last != nullptr || !absl::IsResourceExhausted(item->issued.status)) {
        parts_.watcher->Watch(std::move(item));
        return;
      }
    }
  }
  // With its slot it would stand behind works that wait for one, and all for ever.
  if (item->slot != nullptr) parts_.slots->GiveBack(std::move(item->slot));
  feeder_->Post(0, [this, item = std::move(item)]() mutable { IssueOnFeeder(std::move(item)); });
}

bool LaunchQueue::IsOneLaunch(const DeviceWork& stacked) const {
  if (!stacked.stack.has_groups()) return LayOutStack(stacked).has_value();
  const double any_us = std::numeric_limits<double>::infinity();
  return GroupLaunchesOf(stacked, stacked.resident.which(), any_us).has_value();
}

bool LaunchQueue::ReserveForRows(Item* item) const {
  // Each work's own reservation covers its rows and its plan's workspace.
  std::uint64_t workspace_bytes = item->launch.rows_plan.workspace_bytes;
  for (const DeviceWork& work : item->launch.works) {
    if (!small_issuer_.HasRows(work)) return false;
    workspace_bytes -= std::min(workspace_bytes, work.plan.workspace_bytes);
  }
  if (workspace_bytes == 0) return true;
  absl::StatusOr<MemoryReservation> reservation = parts_.memory->Reserve(0, workspace_bytes);
  if (!reservation.ok()) return false;
  item->reservation = *std::move(reservation);
  return true;
}

const std::vector<PreparedWork>& LaunchQueue::PreparedOf(Item* item) const {
  if (item->prepared.empty()) {
    item->prepared.reserve(item->launch.works.size());
    for (const DeviceWork& work : item->launch.works) {
      item->prepared.push_back(Prepare(work, panel_bytes_));
    }
  }
  return item->prepared;
}

std::optional<IssuedWork> LaunchQueue::IssueQuickly(Item* item) const {
  const std::vector<DeviceWork>& works = item->launch.works;
  if (item->launch.form == BatchForm::kSlice || !works.front().stack.is_one()) return std::nullopt;
  if (item->launch.form == BatchForm::kRows) {
    DeviceWork joined;
    joined.problem = JoinedRows(works);
    joined.plan = item->launch.rows_plan;
    const auto share = [&joined, &first = works.front()](WorkPlane plane) {
      joined.buffers[plane] = first.buffers[plane];
      joined.resident[plane] = first.resident[plane];
    };
    for (const WorkPlane plane : kPlanesOfB) share(plane);
    share(WorkPlane::kBias);
    const Problem landed = LandedProblem(joined.problem);
    const PreparedWork prepared =
        PrepareInPanels(joined, joined.resident.which(), {{0, landed.m, 0, landed.n}});
    return small_issuer_.IssueRows(works, prepared, item->slot.get());
  }
  const std::vector<PreparedWork>& prepared = PreparedOf(item);
  const bool may_cut =
      std::any_of(prepared.begin(), prepared.end(),
                  [this](const PreparedWork& work) { return cutter_.MayCut(work); });
  if (may_cut || !SmallIssuer::Fit(prepared, *item->slot)) return std::nullopt;
  return small_issuer_.IssueTogether(prepared, item->slot.get());
}

void LaunchQueue::IssueOnFeeder(ItemPtr item) {
  item->slot = parts_.slots->Take();
  item->issued = {};
  if (parts_.watcher->lost().ok()) {
    const std::optional<IssuedWork> quick =
        IssueInTime(nullptr, [&] { return IssueQuickly(item.get()); });
    if (quick.has_value()) {
      item->issued = *quick;
    } else if (item->launch.form == BatchForm::kSlice) {
      auto& sliced = static_cast<SlicedCudaWork&>(*item->launch.sliced);
      const auto issue = [&] {
        return std::make_optional(
            item->launch.is_ahead
                ? sliced.IssueAhead(item->slot.get(), ring_.get())
                : sliced.IssueSlice(item->launch.slice, item->slot.get(), ring_.get()));
      };
      item->issued = IssueInTime(nullptr, issue).value();
      GiveUpIfNothingCame(&sliced, item.get());
    } else {
      for (std::size_t i = 0; i < item->launch.works.size(); ++i) {
        IssueAlone(i, item.get());
        if (!item->issued.status.ok()) break;
      }
    }
  }
  if (!item->issued.drains) {
    parts_.watcher->Watch(std::move(item));
    return;
  }
  parts_.drains->Then([watcher = parts_.watcher, item = std::move(item)]() mutable {
    watcher->Watch(std::move(item));
  });
}

void LaunchQueue::IssueAlone(std::size_t index, Item* item) const {
  const DeviceWork& work = item->launch.works[index];
  const auto append = [&](absl::FunctionRef<IssuedWork()> issue) {
    const auto attempt = [&] { return std::make_optional(issue()); };
    Append(IssueInTime(item->issued.last, attempt).value(), &item->issued);
  };
  if (!work.stack.is_one()) {
    const StackBlock layout = LayOutStack(work).value();
    append([&] {
      return parts_.large_issuer->IssueStack(work, layout, item->slot.get(), ring_.get());
    });
    return;
  }
  PartCut parts = cutter_.Cut(work);
  if (parts.panels.empty()) {
    const PreparedWork& prepared = PreparedOf(item)[index];
    append([&] { return parts_.large_issuer->Issue(prepared, item->slot.get(), ring_.get()); });
    return;
  }
  WorkInParts in_parts(parts_.backend, parts_.large_issuer, work, std::move(parts), panel_bytes_);
  for (int slice = 0; slice < in_parts.slices() && item->issued.status.ok(); ++slice) {
    append([&] { return in_parts.IssueSlice(slice, item->slot.get(), ring_.get()); });
  }
  GiveUpIfNothingCame(&in_parts, item);
}

void LaunchQueue::GiveUpIfNothingCame(SlicedCudaWork* sliced, Item* item) {
  if (absl::IsResourceExhausted(item->issued.status)) {
    Append(sliced->GiveUp(item->slot.get()), &item->issued);
  }
}

std::optional<IssuedWork> LaunchQueue::IssueInTime(
    CudaEvent own, absl::FunctionRef<std::optional<IssuedWork>()> issue) const {
  while (true) {
    std::optional<IssuedWork> issued = issue();
    const bool is_out_of_memory =
        issued.has_value() && issued->last == nullptr && absl::IsResourceExhausted(issued->status);
    if (!is_out_of_memory || !parts_.watcher->lost().ok()) return issued;
    // The reservation promised the bytes, so fragments must stand in the way: they go with
    // what is under way. Without any, somebody else has the memory.
    if (own != nullptr) {
      if (!parts_.watcher->WaitUntilDone(own).ok()) return issued;
      own = nullptr;
      continue;
    }
    if (!parts_.watcher->AwaitAnEnd() && !parts_.drains->AwaitOne()) return issued;
  }
}

}  // namespace gemmd
