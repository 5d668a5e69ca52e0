#include "server/device/device.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace gemmd {

Footprint Device::FootprintOf(const Problem& problem, const Plan& plan, const Residency&) const {
  return {ProductBytes(Landed(problem)), plan.workspace_bytes};
}

Footprint Device::StackFootprintOf(const Problem& problem, const Stack&, const Plan& plan,
                                   const Residency& resident) const {
  return FootprintOf(problem, plan, resident);
}

Footprint Device::GroupsFootprintOf(const DeviceWork& grouped, const Residency& resident) const {
  // They are computed one after another.
  Footprint most;
  for (const DeviceWork& each : ProductsOf(grouped, 0, grouped.stack.count)) {
    const Footprint one = FootprintOf(each.problem, each.plan, resident);
    most.in_flight_bytes = std::max(most.in_flight_bytes, one.in_flight_bytes);
    most.workspace_bytes = std::max(most.workspace_bytes, one.workspace_bytes);
  }
  return most;
}

absl::StatusOr<HostPiece> Device::AllocateOperand(std::uint64_t bytes) {
  HostBuffer buffer = AllocateHostBuffer(bytes);
  if (!buffer.empty()) return std::move(buffer.front());
  return absl::ResourceExhaustedError(
      absl::StrCat("the host has no ", bytes, " bytes for an operand"));
}

absl::StatusOr<HostBuffer> Device::AllocateResult(const MatrixLayout& d) {
  HostBuffer buffer = AllocateHostBuffer(d.size_bytes());
  if (!buffer.empty()) return buffer;
  return absl::ResourceExhaustedError(
      absl::StrCat("the host has no ", d.size_bytes(), " bytes for the result"));
}

absl::StatusOr<HostPiece> Device::AllocateResident(std::uint64_t bytes) {
  // The members are destroyed from the last to the first.
  struct Owner {
    MemoryReservation reservation;
    std::shared_ptr<void> memory;
  };
  absl::StatusOr<MemoryReservation> reservation = memory().ReserveResident(bytes);
  if (!reservation.ok()) return reservation.status();
  HostBuffer buffer = AllocateHostBuffer(bytes);
  if (buffer.empty()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the host has no ", bytes, " bytes for an operand"));
  }
  HostPiece piece = std::move(buffer.front());
  piece.owner = std::make_shared<Owner>(Owner{*std::move(reservation), std::move(piece.owner)});
  return piece;
}

absl::StatusOr<std::shared_ptr<ResidentResult>> Device::AllocateKept(const MatrixLayout&) {
  return absl::InternalError(absl::StrCat(traits().name, " keeps results in host memory"));
}

absl::StatusOr<std::shared_ptr<const ResidentOperand>> Device::Store(const Problem& problem,
                                                                     WorkPlane plane,
                                                                     const void* data) {
  static_cast<void>(problem);
  static_cast<void>(plane);
  static_cast<void>(data);
  return absl::InternalError(absl::StrCat(traits().name, " reads operands in host memory"));
}

absl::StatusOr<std::unique_ptr<ArrivingOperand>> Device::BeginStore(const Problem&, WorkPlane) {
  return absl::InternalError(absl::StrCat(traits().name, " reads operands in host memory"));
}

absl::StatusOr<std::shared_ptr<const ResidentOperand>> Device::StoreAgain(const ResidentOperand&,
                                                                          const Problem&,
                                                                          WorkPlane) {
  return absl::InternalError(absl::StrCat(traits().name, " reads operands in host memory"));
}

absl::Status Device::Fetch(const ResidentOperand& operand, void* to) {
  static_cast<void>(operand);
  static_cast<void>(to);
  return absl::InternalError(absl::StrCat(traits().name, " reads operands in host memory"));
}

absl::StatusOr<std::shared_ptr<const SharedMapping>> Device::MapShared(int, std::uint64_t,
                                                                       std::uint64_t) {
  return nullptr;
}

absl::StatusOr<std::shared_ptr<const SharedMapping>> Device::MapDeviceMemory(absl::string_view,
                                                                             std::uint64_t,
                                                                             std::uint64_t) {
  return absl::FailedPreconditionError(absl::StrCat(traits().name, " is no CUDA device"));
}

}  // namespace gemmd
