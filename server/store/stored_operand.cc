#include "server/store/stored_operand.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace gemmd {
namespace {

bool AreEqual(const MatrixLayout& x, const MatrixLayout& y) {
  return x.type == y.type && x.rows == y.rows && x.columns == y.columns && x.order == y.order &&
         x.leading_dimension == y.leading_dimension;
}

absl::StatusOr<HostPiece> Allocate(std::uint64_t bytes) {
  HostBuffer buffer = AllocateHostBuffer(bytes);
  if (!buffer.empty()) return std::move(buffer.front());
  return absl::ResourceExhaustedError(
      absl::StrCat("the host has no ", bytes, " bytes for an operand"));
}

// The pieces' bytes in one piece of ordinary memory.
absl::StatusOr<HostPiece> Join(const HostBuffer& pieces, std::uint64_t bytes) {
  absl::StatusOr<HostPiece> whole = Allocate(bytes);
  if (!whole.ok()) return whole;
  char* to = whole->data;
  for (const HostPiece& piece : pieces) {
    std::memcpy(to, piece.data, piece.size_bytes);
    to += piece.size_bytes;
  }
  return whole;
}

}  // namespace

StoredOperand::StoredOperand(const OperandForm& form, HostBuffer data, HostBuffer scales,
                             StoreHold hold)
    : form_(form), hold_(std::move(hold)), host_{std::move(data), std::move(scales)} {}

absl::StatusOr<HostBuffer> StoredOperand::Planes(StoredPlane plane) {
  if (HostBuffer pieces = Host(plane); !pieces.empty()) return pieces;
  absl::StatusOr<HostPiece> whole = Whole(plane);
  if (!whole.ok()) return whole.status();
  return HostBuffer{*std::move(whole)};
}

absl::StatusOr<HostPiece> StoredOperand::Whole(StoredPlane plane) {
  if (HostBuffer pieces = Host(plane); pieces.size() == 1) return std::move(pieces.front());
  const MutexLock moving(moving_);
  return WholeWhileMoving(plane);
}

HostBuffer StoredOperand::Host(StoredPlane plane) const {
  const MutexLock lock(mutex_);
  return host_[static_cast<std::size_t>(plane)];
}

absl::StatusOr<HostPiece> StoredOperand::WholeWhileMoving(StoredPlane plane) {
  const HostBuffer pieces = Host(plane);
  if (pieces.size() == 1) return pieces.front();
  const std::uint64_t bytes = form_.plane(plane)->size_bytes();
  if (pieces.empty()) {
    absl::StatusOr<HostPiece> whole = Allocate(bytes);
    if (!whole.ok()) return whole;
    // For this use alone: the device keeps it. No landing goes before this one does.
    const Landing landing = FirstLanding();
    if (absl::Status status = landing.device->Fetch(*landing.memory, whole->data); !status.ok()) {
      return status;
    }
    return whole;
  }
  absl::StatusOr<HostPiece> whole = Join(pieces, bytes);
  if (!whole.ok()) return whole;
  const MutexLock lock(mutex_);
  host_[static_cast<std::size_t>(plane)] = {*whole};
  return whole;
}

absl::StatusOr<StoredOperand::Placed> StoredOperand::PlaceOn(Device* device, const Problem& problem,
                                                             OperandSide side) {
  Placed placed;
  if (device->uses_host_memory()) {
    absl::StatusOr<HostPiece> whole = Whole(StoredPlane::kData);
    if (!whole.ok()) return whole.status();
    placed.host = *std::move(whole);
    return placed;
  }
  const Problem landed = device->Landed(problem);
  const MatrixLayout& layout = side == OperandSide::kA ? landed.a : landed.b;
  placed.landed = FindLanding(device, layout);
  if (placed.landed != nullptr) return placed;
  const MutexLock moving(moving_);
  // Another thread may have made it meanwhile.
  placed.landed = FindLanding(device, layout);
  if (placed.landed != nullptr) return placed;
  const absl::StatusOr<HostPiece> whole = WholeWhileMoving(StoredPlane::kData);
  if (!whole.ok()) return whole.status();
  absl::StatusOr<std::shared_ptr<const ResidentOperand>> memory =
      device->Store(problem, side, whole->data);
  if (!memory.ok()) return memory.status();
  placed.landed = *memory;
  const MutexLock lock(mutex_);
  landings_.push_back({device, layout, *std::move(memory)});
  host_[static_cast<std::size_t>(StoredPlane::kData)].clear();
  return placed;
}

StoredOperand::Landing StoredOperand::FirstLanding() const {
  const MutexLock lock(mutex_);
  return landings_.front();
}

std::shared_ptr<const ResidentOperand> StoredOperand::FindLanding(
    const Device* device, const MatrixLayout& layout) const {
  const MutexLock lock(mutex_);
  for (const Landing& each : landings_) {
    if (each.device == device && AreEqual(each.layout, layout)) return each.memory;
  }
  return nullptr;
}

absl::Status StoredOperand::MoveToOrdinaryMemory() {
  const MutexLock moving(moving_);
  const HostBuffer pieces = Host(StoredPlane::kData);
  if (pieces.empty()) return absl::OkStatus();
  absl::StatusOr<HostPiece> whole = Join(pieces, form_.data.size_bytes());
  if (!whole.ok()) return whole.status();
  const MutexLock lock(mutex_);
  host_[static_cast<std::size_t>(StoredPlane::kData)] = {*std::move(whole)};
  return absl::OkStatus();
}

Device* StoredOperand::holder() const {
  const MutexLock lock(mutex_);
  return landings_.empty() ? nullptr : landings_.front().device;
}

bool StoredOperand::IsLandedOn(const Device* device) const {
  const MutexLock lock(mutex_);
  return std::any_of(landings_.begin(), landings_.end(),
                     [device](const Landing& each) { return each.device == device; });
}

std::uint64_t StoredOperand::landed_bytes() const {
  const MutexLock lock(mutex_);
  std::uint64_t bytes = 0;
  for (const Landing& each : landings_) {
    bytes += static_cast<std::uint64_t>(each.layout.outer()) *
             static_cast<std::uint64_t>(each.layout.leading_dimension) *
             static_cast<std::uint64_t>(SizeBits(each.layout.type)) / 8;
  }
  return bytes;
}

}  // namespace gemmd
