// An operand that the server keeps, and where its bytes are.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "base/sync/mutex.h"
#include "base/time/clock.h"
#include "server/device/device.h"
#include "server/store/copy_demand.h"
#include "server/store/operand_form.h"
#include "server/store/store_budget.h"

namespace gemmd {

// Counts of operands, and of their bytes, that moved between the host and devices.
struct StoreTraffic {
  std::atomic<std::uint64_t> landings{0};  // onto a device, from the host
  std::atomic<std::uint64_t> landed_bytes{0};
  std::atomic<std::uint64_t> moves_out{0};  // off a device whose memory others needed
  std::atomic<std::uint64_t> moved_out_bytes{0};
  std::atomic<std::uint64_t> fetched_bytes{0};   // off a device, to be read, moved out or copied
  std::atomic<std::uint64_t> copies_dropped{0};  // off a device whose memory others needed
};

// Its bytes never change; where they lie does. An upload's come in host memory. A device that has
// memory of its own (Device::uses_host_memory() is false) gets a plane, landed as it wants it,
// with the first product that uses it so, and the host's copy goes; what it computed to be kept
// is there from the beginning. Another use that wants the plane landed differently has it copied
// within the device. One that wants it packed has it packed there, in place of what lay there.
// One on another device has it brought back first, once, and then several devices hold it.
// MoveOut() brings all to the host again.
//
// Thread-safe. A holder of a reference may use it, whatever the store does with its handle.
class StoredOperand {
 public:
  // By plane, any number of pieces; empty where the form has none. They keep `hold`, as all memory
  // does that the operand gets later. `traffic` counts what moves; not null.
  using Memory = OperandPlanes<HostBuffer>;
  StoredOperand(const OperandForm& form, Memory memory, std::shared_ptr<StoreHold> hold,
                std::shared_ptr<StoreTraffic> traffic);
  // An operand whose data the device holds; they keep `hold`.
  StoredOperand(const OperandForm& form, Device* device,
                std::shared_ptr<const ResidentOperand> data, std::shared_ptr<StoreHold> hold,
                std::shared_ptr<StoreTraffic> traffic);

  const OperandForm& form() const { return form_; }
  std::uint64_t size_bytes() const { return form_.size_bytes(); }

  // Returns whether somebody has some of its memory, which then lives on without it. Whoever gets
  // any has a reference to the operand at that moment.
  bool is_lent() const;

  // The data have landed on the device too, and the host's copy goes.
  void SetLanded(Device* device, std::shared_ptr<const ResidentOperand> data);

  // The plane in host memory, perhaps in pieces. May wait for a device to bring it back.
  // REQUIRES: the form has the plane.
  absl::StatusOr<HostBuffer> Planes(PlaneName plane);
  // The plane in one piece of host memory. May wait for a device to bring it back. REQUIRES: the
  // form has the plane.
  absl::StatusOr<HostPiece> Whole(PlaneName plane);

  // The memory of one plane of a work: one of these.
  struct Placed {
    HostPiece host;                                 // to be kept until the work ends
    std::shared_ptr<const ResidentOperand> landed;  // on that device
  };
  // Waits for a copy where the plane has to land first, and adds the bytes that came from the
  // host for it to `*landed_bytes`. The planes that scale the operand serve the planes of A and of
  // B of that name, its data all others. RESOURCE_EXHAUSTED: there is no room for it there now.
  absl::StatusOr<Placed> PlaceOn(Device* device, const Problem& problem, WorkPlane plane,
                                 std::uint64_t* landed_bytes);

  // Gives back what it has of the device's memory; what lies nowhere else comes to the host first.
  // The device's bytes. RESOURCE_EXHAUSTED: the host has no memory. Also the errors of
  // Device::Fetch().
  absl::StatusOr<std::uint64_t> MoveOut(Device* device);

  // Gives back what it has of the device's memory if its data lie elsewhere too and no work uses
  // them there: the device's bytes, else 0. Waits for nothing.
  std::uint64_t DropCopy(const Device* device);
  // The bytes that DropCopy() would give back, unless bytes move meanwhile.
  std::uint64_t idle_copy_bytes(const Device* device) const;

  // See CopyDemand.
  bool AddCopyDemand(double gain_us, double price_us, TimeNs now);
  void ForgetCopyDemand();
  void RestCopyDemand(TimeNs now);

  // A device in whose own memory its data lie; null: they lie in the host's.
  Device* holder() const;
  bool is_on(const Device& device) const;
  // All of them, each once.
  absl::InlinedVector<const Device*, 8> holders() const;
  // Returns its bytes in the memory of devices, or of that one.
  std::uint64_t device_bytes() const { return BytesOn(nullptr); }
  std::uint64_t device_bytes(const Device& device) const { return BytesOn(&device); }
  // The bytes on devices other than the first that got each plane.
  std::uint64_t copy_bytes() const;

 private:
  // As one device wanted it.
  struct Landing {
    Device* device = nullptr;
    std::shared_ptr<const ResidentOperand> memory;
  };
  struct Plane {
    HostBuffer host;  // may have gone where there is a landing
    std::vector<Landing> landings;
    // Fetched bytes, as long as somebody reads them: many readers have one copy.
    std::weak_ptr<void> fetched;
    char* fetched_data = nullptr;
  };

  absl::StatusOr<HostPiece> Allocate(std::uint64_t bytes) const;
  // The pieces' bytes in one piece of ordinary memory.
  absl::StatusOr<HostPiece> Join(const HostBuffer& pieces, std::uint64_t bytes) const;
  absl::StatusOr<HostPiece> WholeWhileMoving(PlaneName plane)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(moving_);
  // REQUIRES: it lies on a device.
  absl::StatusOr<HostPiece> FetchWhileMoving(PlaneName plane)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(moving_);
  absl::StatusOr<std::shared_ptr<const ResidentOperand>> Land(Device* device,
                                                              const Problem& problem,
                                                              WorkPlane plane, PlaneName stored,
                                                              std::uint64_t* landed_bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(moving_);
  // The host's copy goes; with `replaces` also what else the device has of the plane. Returns the
  // memory, which keeps the hold.
  std::shared_ptr<const ResidentOperand> AddLandingWhileMoving(PlaneName plane, Landing landing,
                                                               bool replaces = false)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(moving_);
  HostBuffer Host(PlaneName plane) const;
  // Finds a landing of the plane on that device (null: on any), in that layout (null: in any).
  // Without memory: there is none.
  Landing FindLanding(PlaneName plane, const Device* device, const MatrixLayout* layout) const;
  std::uint64_t BytesOn(const Device* device) const;
  // Returns whether the plane lies on the device, and elsewhere too.
  bool IsCopiedLocked(PlaneName plane, const Device* device) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::uint64_t IdleCopyBytesLocked(const Device* device) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const OperandForm form_;
  const std::shared_ptr<StoreHold> hold_;  // kept by all memory in planes_, and by what was fetched
  const std::shared_ptr<StoreTraffic> traffic_;
  // Held while bytes move, which takes as long as that does, so that each landing is made
  // once.
  Mutex moving_ ABSL_ACQUIRED_BEFORE(mutex_);
  mutable AdaptiveMutex mutex_;
  // Changed only with moving_ held, too.
  OperandPlanes<Plane> planes_ ABSL_GUARDED_BY(mutex_);
  CopyDemand demand_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd
