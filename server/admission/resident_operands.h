// The operands of one request that the server keeps.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/admission/matmul_call.h"
#include "server/device/device.h"
#include "server/store/operand_store.h"

namespace gemmd {

// Not thread-safe. Holds what it found: it stays in memory as long as this.
class ResidentOperands {
 public:
  // Finds what the call names, which counts as a use, and completes the call by what it is.
  // NOT_FOUND: see OperandStore::Use(). INVALID_ARGUMENT: the call describes another operand.
  // `store` null: nothing is found, and validation says so.
  static absl::StatusOr<ResidentOperands> Find(OperandStore* store, MatmulCall* call);

  // The devices whose own memory has most of the operands' bytes; all of them have equally many.
  std::vector<const Device*> holders() const;
  // The operands whose data are not on the device.
  std::vector<std::shared_ptr<StoredOperand>> MissingOn(const Device& device) const;
  bool has_b() const { return operand(OperandName::kB) != nullptr; }
  // Returns whether a device that packs weights may keep B packed. REQUIRES: has_b().
  bool may_pack_b(const Problem& problem) const;
  // The operands' planes, once they are on the device.
  Residency residency(const Device& device) const;
  // The bytes that the operands take on the device together; 0 if it reads them in the host's
  // memory.
  std::uint64_t bytes_on(const Device& device) const;

  // The planes that a work needs of them.
  struct Placed {
    HostBuffers buffers;            // null where there is none, or it is landed
    ResidentPlanes resident;        // null where there is none, or the device reads host memory
    std::vector<HostPiece> memory;  // of the buffers
    std::uint64_t weights_id = 0;   // see DeviceWork
  };
  // OK: PlaceOn() finds a place for each plane, if there is room. FAILED_PRECONDITION: see
  // PlaceOnDevice().
  absl::Status CheckPlaces(const Device& device, const Problem& problem) const;
  // Brings them to the device, which may wait for copies, and adds the bytes that came from the
  // host for that to `*landed_bytes`. RESOURCE_EXHAUSTED: no room now. Also what CheckPlaces()
  // says. REQUIRES: `problem` is what ValidateHeader() made of the call.
  absl::StatusOr<Placed> PlaceOn(Device* device, const Problem& problem,
                                 std::uint64_t* landed_bytes) const;

 private:
  template <typename Use>
  void ForEachOnce(Use use) const;
  // Returns whether the plane is one of theirs.
  bool Has(const OperandPlane& plane) const;
  StoredOperand* operand(OperandName name) const {
    return operands_[static_cast<std::size_t>(name)].get();
  }
  const std::optional<StackSpec>& stack(OperandName name) const {
    return stacks_[static_cast<std::size_t>(name)];
  }
  // One plane, and what keeps it.
  absl::Status PlacePlane(Device* device, const Problem& problem, const OperandPlane& plane,
                          std::uint64_t* landed_bytes, Placed* placed) const;

  std::array<std::shared_ptr<StoredOperand>, kOperandCount> operands_;
  std::array<std::optional<StackSpec>, kOperandCount> stacks_;
};

}  // namespace gemmd
