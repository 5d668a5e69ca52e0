#include "server/store/stored_operand.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/device/keep_with.h"

namespace gemmd {
namespace {

bool AreEqual(const MatrixLayout& x, const MatrixLayout& y) {
  // The distance from a line to the next says nothing where there is one.
  return x.type == y.type && x.rows == y.rows && x.columns == y.columns && x.order == y.order &&
         (x.leading_dimension == y.leading_dimension || x.outer() == 1);
}

PlaneName NameOf(WorkPlane plane) {
  for (const auto& planes : {kPlanesOfA, kPlanesOfB}) {
    const auto found = std::find(planes.begin(), planes.end(), plane);
    if (found != planes.end()) return static_cast<PlaneName>(found - planes.begin());
  }
  return PlaneName::kData;
}

}  // namespace

StoredOperand::StoredOperand(const OperandForm& form, Memory memory,
                             std::shared_ptr<StoreHold> hold, std::shared_ptr<StoreTraffic> traffic)
    : form_(form), hold_(std::move(hold)), traffic_(std::move(traffic)) {
  const MutexLock lock(mutex_);
  for (const PlaneName each : kPlaneNames) planes_[each].host = std::move(memory[each]);
}

StoredOperand::StoredOperand(const OperandForm& form, Device* device,
                             std::shared_ptr<const ResidentOperand> data,
                             std::shared_ptr<StoreHold> hold, std::shared_ptr<StoreTraffic> traffic)
    : form_(form), hold_(std::move(hold)), traffic_(std::move(traffic)) {
  const MutexLock lock(mutex_);
  planes_[PlaneName::kData].landings.push_back({device, std::move(data)});
}

void StoredOperand::SetLanded(Device* device, std::shared_ptr<const ResidentOperand> data) {
  ++traffic_->landings;
  traffic_->landed_bytes += form_.data.size_bytes();
  const MutexLock moving(moving_);
  AddLandingWhileMoving(PlaneName::kData, {device, std::move(data)});
}

std::shared_ptr<const ResidentOperand> StoredOperand::AddLandingWhileMoving(PlaneName plane,
                                                                            Landing landing,
                                                                            bool replaces) {
  landing.memory = KeepWith(hold_, std::move(landing.memory));
  std::vector<Landing> gone;  // after the lock
  const MutexLock lock(mutex_);
  Plane& landed = planes_[plane];
  if (replaces) {
    const auto first = std::stable_partition(
        landed.landings.begin(), landed.landings.end(),
        [&landing](const Landing& each) { return each.device != landing.device; });
    std::move(first, landed.landings.end(), std::back_inserter(gone));
    landed.landings.erase(first, landed.landings.end());
  }
  landed.landings.push_back(std::move(landing));
  landed.host.clear();
  return landed.landings.back().memory;
}

absl::StatusOr<HostPiece> StoredOperand::Allocate(std::uint64_t bytes) const {
  HostBuffer buffer = AllocateHostBuffer(bytes);
  if (!buffer.empty()) return KeepWith(hold_, std::move(buffer.front()));
  return absl::ResourceExhaustedError(
      absl::StrCat("the host has no ", bytes, " bytes for an operand"));
}

absl::StatusOr<HostPiece> StoredOperand::Join(const HostBuffer& pieces, std::uint64_t bytes) const {
  absl::StatusOr<HostPiece> whole = Allocate(bytes);
  if (!whole.ok()) return whole;
  char* to = whole->data;
  for (const HostPiece& piece : pieces) {
    std::memcpy(to, piece.data, piece.size_bytes);
    to += piece.size_bytes;
  }
  return whole;
}

bool StoredOperand::is_lent() const {
  const MutexLock lock(mutex_);
  for (const PlaneName name : kPlaneNames) {
    const Plane& plane = planes_[name];
    const bool is_host_lent =
        std::any_of(plane.host.begin(), plane.host.end(),
                    [](const HostPiece& each) { return each.owner.use_count() > 1; });
    const bool is_landing_lent =
        std::any_of(plane.landings.begin(), plane.landings.end(),
                    [](const Landing& each) { return each.memory.use_count() > 1; });
    if (is_host_lent || is_landing_lent || !plane.fetched.expired()) return true;
  }
  return false;
}

absl::StatusOr<HostBuffer> StoredOperand::Planes(PlaneName plane) {
  if (HostBuffer pieces = Host(plane); !pieces.empty()) return pieces;
  absl::StatusOr<HostPiece> whole = Whole(plane);
  if (!whole.ok()) return whole.status();
  return HostBuffer{*std::move(whole)};
}

absl::StatusOr<HostPiece> StoredOperand::Whole(PlaneName plane) {
  if (HostBuffer pieces = Host(plane); pieces.size() == 1) return std::move(pieces.front());
  const MutexLock moving(moving_);
  return WholeWhileMoving(plane);
}

HostBuffer StoredOperand::Host(PlaneName plane) const {
  const MutexLock lock(mutex_);
  return planes_[plane].host;
}

absl::StatusOr<HostPiece> StoredOperand::WholeWhileMoving(PlaneName plane) {
  const HostBuffer pieces = Host(plane);
  if (pieces.size() == 1) return pieces.front();
  if (pieces.empty()) return FetchWhileMoving(plane);
  absl::StatusOr<HostPiece> whole = Join(pieces, form_.plane(plane)->size_bytes());
  if (!whole.ok()) return whole;
  const MutexLock lock(mutex_);
  planes_[plane].host = {*whole};
  return whole;
}

absl::StatusOr<HostPiece> StoredOperand::FetchWhileMoving(PlaneName plane) {
  const std::uint64_t bytes = form_.plane(plane)->size_bytes();
  {
    const MutexLock lock(mutex_);
    const Plane& held = planes_[plane];
    if (std::shared_ptr<void> owner = held.fetched.lock()) {
      return HostPiece{held.fetched_data, bytes, std::move(owner)};
    }
  }
  absl::StatusOr<HostPiece> whole = Allocate(bytes);
  if (!whole.ok()) return whole;
  // No landing goes before this one does.
  const Landing landing = FindLanding(plane, nullptr, nullptr);
  if (absl::Status status = landing.device->Fetch(*landing.memory, whole->data); !status.ok()) {
    return status;
  }
  traffic_->fetched_bytes += bytes;
  const MutexLock lock(mutex_);
  planes_[plane].fetched = whole->owner;
  planes_[plane].fetched_data = whole->data;
  return whole;
}

absl::StatusOr<StoredOperand::Placed> StoredOperand::PlaceOn(Device* device, const Problem& problem,
                                                             WorkPlane plane,
                                                             std::uint64_t* landed_bytes) {
  const PlaneName stored = NameOf(plane);
  Placed placed;
  if (device->uses_host_memory()) {
    absl::StatusOr<HostPiece> whole = Whole(stored);
    if (!whole.ok()) return whole.status();
    placed.host = *std::move(whole);
    return placed;
  }
  const MatrixLayout layout = ResidentPlaneOf(device->Landed(problem), plane);
  placed.landed = FindLanding(stored, device, &layout).memory;
  if (placed.landed != nullptr) return placed;
  const MutexLock moving(moving_);
  // Another thread may have made it meanwhile.
  placed.landed = FindLanding(stored, device, &layout).memory;
  if (placed.landed != nullptr) return placed;
  absl::StatusOr<std::shared_ptr<const ResidentOperand>> memory =
      Land(device, problem, plane, stored, landed_bytes);
  if (!memory.ok()) return memory.status();
  const bool is_packed = PackedPlaneOf(problem, plane).has_value();
  placed.landed = AddLandingWhileMoving(stored, {device, *std::move(memory)}, is_packed);
  return placed;
}

absl::StatusOr<std::shared_ptr<const ResidentOperand>> StoredOperand::Land(
    Device* device, const Problem& problem, WorkPlane plane, PlaneName stored,
    std::uint64_t* landed_bytes) {
  const Landing other = FindLanding(stored, device, nullptr);
  if (other.memory != nullptr) return device->StoreAgain(*other.memory, problem, plane);
  const absl::StatusOr<HostPiece> whole = WholeWhileMoving(stored);
  if (!whole.ok()) return whole.status();
  absl::StatusOr<std::shared_ptr<const ResidentOperand>> memory =
      device->Store(problem, plane, whole->data);
  if (!memory.ok()) return memory;
  const std::uint64_t bytes = form_.plane(stored)->size_bytes();
  *landed_bytes += bytes;
  ++traffic_->landings;
  traffic_->landed_bytes += bytes;
  return memory;
}

absl::StatusOr<std::uint64_t> StoredOperand::MoveOut(Device* device) {
  const MutexLock moving(moving_);
  std::vector<Landing> gone;  // after the lock
  std::uint64_t freed_bytes = 0;
  for (const PlaneName plane : kPlaneNames) {
    if (FindLanding(plane, device, nullptr).memory == nullptr) continue;
    const auto is_there = [device](const Landing& each) { return each.device == device; };
    bool lies_elsewhere = false;
    {
      const MutexLock lock(mutex_);
      lies_elsewhere = IsCopiedLocked(plane, device);
    }
    HostBuffer host;
    if (!lies_elsewhere) {
      absl::StatusOr<HostPiece> whole = FetchWhileMoving(plane);
      if (!whole.ok()) return whole.status();
      traffic_->moved_out_bytes += whole->size_bytes;
      host = {*std::move(whole)};
    }
    const MutexLock lock(mutex_);
    Plane& held = planes_[plane];
    if (!host.empty()) {
      held.host = std::move(host);
      held.fetched.reset();
    }
    const auto first = std::partition(held.landings.begin(), held.landings.end(),
                                      [&](const Landing& each) { return !is_there(each); });
    for (auto each = first; each != held.landings.end(); ++each) {
      freed_bytes += each->memory->size_bytes();
      gone.push_back(std::move(*each));
    }
    held.landings.erase(first, held.landings.end());
  }
  if (freed_bytes != 0) ++traffic_->moves_out;
  return freed_bytes;
}

bool StoredOperand::IsCopiedLocked(PlaneName plane, const Device* device) const {
  const Plane& held = planes_[plane];
  const auto is_there = [device](const Landing& each) { return each.device == device; };
  return std::any_of(held.landings.begin(), held.landings.end(), is_there) &&
         (!held.host.empty() || !std::all_of(held.landings.begin(), held.landings.end(), is_there));
}

std::uint64_t StoredOperand::IdleCopyBytesLocked(const Device* device) const {
  if (!IsCopiedLocked(PlaneName::kData, device)) return 0;
  std::uint64_t bytes = 0;
  for (const PlaneName plane : kPlaneNames) {
    if (!IsCopiedLocked(plane, device)) continue;
    for (const Landing& each : planes_[plane].landings) {
      if (each.device != device) continue;
      // References are taken under this lock, so a count of one stays one.
      if (each.memory.use_count() != 1) return 0;
      bytes += each.memory->size_bytes();
    }
  }
  return bytes;
}

std::uint64_t StoredOperand::idle_copy_bytes(const Device* device) const {
  const MutexLock lock(mutex_);
  return IdleCopyBytesLocked(device);
}

std::uint64_t StoredOperand::DropCopy(const Device* device) {
  // A move of its bytes that is under way needs the landings that it began with.
  if (!moving_.try_lock()) return 0;
  const MutexLock moving(moving_, std::adopt_lock);
  std::vector<Landing> gone;  // after the lock
  const MutexLock lock(mutex_);
  const std::uint64_t bytes = IdleCopyBytesLocked(device);
  if (bytes == 0) return 0;
  for (const PlaneName plane : kPlaneNames) {
    if (!IsCopiedLocked(plane, device)) continue;
    std::vector<Landing>& landings = planes_[plane].landings;
    const auto first =
        std::stable_partition(landings.begin(), landings.end(),
                              [device](const Landing& each) { return each.device != device; });
    std::move(first, landings.end(), std::back_inserter(gone));
    landings.erase(first, landings.end());
  }
  ++traffic_->copies_dropped;
  return bytes;
}

bool StoredOperand::AddCopyDemand(double gain_us, double price_us, TimeNs now) {
  const MutexLock lock(mutex_);
  return demand_.Add(gain_us, price_us, now);
}

void StoredOperand::ForgetCopyDemand() {
  const MutexLock lock(mutex_);
  demand_.Forget();
}

void StoredOperand::RestCopyDemand(TimeNs now) {
  const MutexLock lock(mutex_);
  demand_.Rest(now);
}

StoredOperand::Landing StoredOperand::FindLanding(PlaneName plane, const Device* device,
                                                  const MatrixLayout* layout) const {
  const MutexLock lock(mutex_);
  for (const Landing& each : planes_[plane].landings) {
    const bool is_there = device == nullptr || each.device == device;
    if (is_there && (layout == nullptr || AreEqual(each.memory->layout(), *layout))) return each;
  }
  return {};
}

Device* StoredOperand::holder() const {
  return FindLanding(PlaneName::kData, nullptr, nullptr).device;
}

bool StoredOperand::is_on(const Device& device) const {
  const MutexLock lock(mutex_);
  const std::vector<Landing>& landings = planes_[PlaneName::kData].landings;
  return std::any_of(landings.begin(), landings.end(),
                     [&device](const Landing& each) { return each.device == &device; });
}

absl::InlinedVector<const Device*, 8> StoredOperand::holders() const {
  const MutexLock lock(mutex_);
  absl::InlinedVector<const Device*, 8> holders;
  for (const Landing& each : planes_[PlaneName::kData].landings) {
    if (std::find(holders.begin(), holders.end(), each.device) == holders.end()) {
      holders.push_back(each.device);
    }
  }
  return holders;
}

std::uint64_t StoredOperand::copy_bytes() const {
  const MutexLock lock(mutex_);
  std::uint64_t bytes = 0;
  for (const PlaneName plane : kPlaneNames) {
    const std::vector<Landing>& landings = planes_[plane].landings;
    for (const Landing& each : landings) {
      if (each.device != landings.front().device) bytes += each.memory->size_bytes();
    }
  }
  return bytes;
}

std::uint64_t StoredOperand::BytesOn(const Device* device) const {
  const MutexLock lock(mutex_);
  std::uint64_t bytes = 0;
  for (const PlaneName plane : kPlaneNames) {
    for (const Landing& each : planes_[plane].landings) {
      if (device == nullptr || each.device == device) bytes += each.memory->size_bytes();
    }
  }
  return bytes;
}

}  // namespace gemmd
