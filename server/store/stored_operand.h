// An operand that the server keeps, and where its bytes are.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "server/device/device.h"
#include "server/store/operand_form.h"
#include "server/store/store_budget.h"
#include "sync/mutex.h"

namespace gemmd {

// Its bytes never change; where they lie does. They come in host memory. A device that has
// memory of its own (Device::uses_host_memory() is false) gets A or B, landed as it wants it,
// with the first product that uses it so, and the host's copy goes; scales are small and stay
// with the host. Another use that wants it landed differently, or on another device, has the
// bytes brought back first, once.
//
// Thread-safe. Who holds a reference may use it, whatever the store does with its handle.
class StoredOperand {
 public:
  // By plane, any number of pieces; `scales` is empty where the form has none.
  StoredOperand(const OperandForm& form, HostBuffer data, HostBuffer scales, StoreHold hold);

  const OperandForm& form() const { return form_; }
  std::uint64_t size_bytes() const { return form_.size_bytes(); }

  // The plane in host memory, perhaps in pieces. May wait for a device to bring it back.
  // REQUIRES: the form has the plane.
  absl::StatusOr<HostBuffer> Planes(StoredPlane plane);
  // The same in one piece.
  absl::StatusOr<HostPiece> Whole(StoredPlane plane);

  // What a work needs for the data of A or B: one of these.
  struct Placed {
    HostPiece host;                                 // to be kept until the work ends
    std::shared_ptr<const ResidentOperand> landed;  // on that device
  };
  // Waits for a copy where the operand has to land first.
  // RESOURCE_EXHAUSTED: there is no room for it there now.
  absl::StatusOr<Placed> PlaceOn(Device* device, const Problem& problem, OperandSide side);

  // Brings the data from whatever host memory it came in to ordinary memory, if it is still
  // there. RESOURCE_EXHAUSTED: the host has none.
  absl::Status MoveToOrdinaryMemory();

  // The device in whose own memory it lies; null: it lies in the host's.
  Device* holder() const;
  bool IsLandedOn(const Device* device) const;
  // In devices' own memory, as it landed.
  std::uint64_t landed_bytes() const;

 private:
  // As one device wanted it.
  struct Landing {
    Device* device = nullptr;
    MatrixLayout layout;
    std::shared_ptr<const ResidentOperand> memory;
  };

  absl::StatusOr<HostPiece> WholeWhileMoving(StoredPlane plane)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(moving_);
  HostBuffer Host(StoredPlane plane) const;
  // REQUIRES: it has landed somewhere.
  Landing FirstLanding() const;
  // Null: it has not landed so there.
  std::shared_ptr<const ResidentOperand> FindLanding(const Device* device,
                                                     const MatrixLayout& layout) const;

  const OperandForm form_;
  const StoreHold hold_;
  // Held while bytes move, which takes as long as that does, so that each landing is made
  // once.
  Mutex moving_ ABSL_ACQUIRED_BEFORE(mutex_);
  mutable AdaptiveMutex mutex_;
  // Both are changed only with moving_ held, too. Data's may have gone.
  std::array<HostBuffer, kStoredPlanes> host_ ABSL_GUARDED_BY(mutex_);
  std::vector<Landing> landings_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd
