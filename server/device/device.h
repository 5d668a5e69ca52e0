// The interface between the server and the devices that compute.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/gemm.h"
#include "server/device/host_buffer.h"
#include "server/device/launch.h"
#include "server/device/memory_budget.h"
#include "server/device/shared_mapping.h"
#include "server/observe/receipt.h"

namespace gemmd {

// Bytes of the device's memory that serving one work holds.
struct Footprint {
  std::uint64_t in_flight_bytes = 0;  // operands and result, as they land
  std::uint64_t workspace_bytes = 0;
  std::uint64_t kept_bytes = 0;  // of a D that stays there
};

// Bytes that copies moved between host and device.
struct CopiedBytes {
  std::uint64_t in = 0;
  std::uint64_t out = 0;
};

// Limits on the host memory for the planes of requests in flight.
struct HostMemoryLimits {
  bool in_memory = false;               // they lie in memory(), and nothing below counts
  std::uint64_t small_plane_bytes = 0;  // planes of at most so much are small
  std::uint64_t small_bytes = std::numeric_limits<std::uint64_t>::max();  // page-locked, for these
  std::uint64_t large_bytes = std::numeric_limits<std::uint64_t>::max();  // and for others
  // Ordinary memory, for operands that find no room there and results that are larger.
  std::uint64_t ordinary_bytes = std::numeric_limits<std::uint64_t>::max();
};

struct DeviceResult {
  absl::Status status;           // not OK: the contents of every d are unspecified
  std::vector<StageSpan> spans;  // kCopyIn, kCompute, kCopyOut, as far as they happened
  CopiedBytes copied;            // by the launch's own copies; none where works read host memory
  // Slices of a work that this launch, of kSlice, was the last for: its own, and those that it went
  // on with. All that were left where nothing of the work is.
  int slices = 1;
};

// A plane that comes onto a device in parts, to stay. Used by one thread at a time; dropped before
// Finish(), it gives its memory back. The device outlives it.
class ArrivingOperand {
 public:
  virtual ~ArrivingOperand() = default;
  // Brings bytes [begin, end) of the plane, which begins at `plane`: they have been read when this
  // returns. REQUIRES: no byte comes twice.
  virtual absl::Status Bring(const void* plane, std::uint64_t begin, std::uint64_t end) = 0;
  // The plane, as Device::Store() gives it. Waits for its copies. INTERNAL: bytes are missing.
  // REQUIRES: called once, last.
  virtual absl::StatusOr<std::shared_ptr<const ResidentOperand>> Finish() = 0;
};

// Thread-safe. Bytes are reserved from memory() by whoever admits work, before it is
// submitted; a device never allocates beyond what was reserved for the work.
class Device {
 public:
  using Callback = absl::AnyInvocable<void(DeviceResult) &&>;

  virtual ~Device() = default;

  virtual const DeviceTraits& traits() const = 0;
  virtual MemoryBudget& memory() = 0;
  // Use of the pinned host memory that results and staging take; all zero where there is none.
  virtual MemoryUsage host_memory_usage() const { return {}; }
  // Limits of the memory that AllocateOperand() and AllocateResult() give.
  virtual HostMemoryLimits host_memory_limits() const { return {}; }

  // The problem as kernels will see it here: the same shapes and types, in the layouts
  // that operands have once they landed in the device's memory. Plans are chosen for it.
  virtual Problem Landed(const Problem& problem) const { return problem; }

  // If true, a quantized B that stays may be packed (Problem::b_packing): it then lies as
  // ResidentPlaneOf() says.
  virtual bool packs_weights() const { return false; }

  // The memory to reserve for a problem and the plan chosen for it.
  virtual Footprint FootprintOf(const Problem& problem, const Plan& plan,
                                const Residency& resident) const;
  // As FootprintOf(), for a stack of more than one: of those of its products that are under way at
  // once.
  virtual Footprint StackFootprintOf(const Problem& problem, const Stack& stack, const Plan& plan,
                                     const Residency& resident) const;
  // If true, a launch may be of groups. Otherwise they are submitted as works of their own.
  virtual bool takes_groups() const { return false; }
  // As StackFootprintOf(), for groups: their buffers are not there yet.
  virtual Footprint GroupsFootprintOf(const DeviceWork& grouped, const Residency& resident) const;

  // Host memory that the device takes one plane of an operand from, or writes D into; bytes
  // are unspecified. An operand's is one piece, aligned to 64 bytes.
  // RESOURCE_EXHAUSTED: there is none now. INVALID_ARGUMENT: there never is that much.
  virtual absl::StatusOr<HostPiece> AllocateOperand(std::uint64_t bytes);
  virtual absl::StatusOr<HostBuffer> AllocateResult(const MatrixLayout& d);
  // As AllocateOperand(), but never page-locked.
  virtual absl::StatusOr<HostPiece> AllocateOrdinaryOperand(std::uint64_t bytes) {
    return AllocateOperand(bytes);
  }

  // If true, works read operands that stay in host memory where they lie. Otherwise Store() brings
  // them into the device's own memory.
  virtual bool uses_host_memory() const { return true; }
  // Host memory for one plane of an operand that stays, in one piece aligned to 64 bytes;
  // counted in memory() as resident where works read it there. RESOURCE_EXHAUSTED: there is
  // none now.
  virtual absl::StatusOr<HostPiece> AllocateResident(std::uint64_t bytes);
  // Memory of the device's own for a D that stays, counted in memory() as resident. A client that
  // names D sees it tightly packed; it lies as an operand of its layout would land.
  // RESOURCE_EXHAUSTED: there is none now. REQUIRES: !uses_host_memory().
  virtual absl::StatusOr<std::shared_ptr<ResidentResult>> AllocateKept(const MatrixLayout& d);
  // Brings a plane of the problem onto the device, to stay, landed as Landed(problem) says.
  // Waits for the copy. RESOURCE_EXHAUSTED: it does not fit now.
  // REQUIRES: !uses_host_memory().
  virtual absl::StatusOr<std::shared_ptr<const ResidentOperand>> Store(const Problem& problem,
                                                                       WorkPlane plane,
                                                                       const void* data);
  // As Store(), for a plane that comes in parts. Waits for nothing.
  virtual absl::StatusOr<std::unique_ptr<ArrivingOperand>> BeginStore(const Problem& problem,
                                                                      WorkPlane plane);
  // As Store(), from what lies on this device already for another use: no byte leaves the device.
  // REQUIRES: it is of this device, and nothing writes it.
  virtual absl::StatusOr<std::shared_ptr<const ResidentOperand>> StoreAgain(
      const ResidentOperand& operand, const Problem& problem, WorkPlane plane);
  // Copies the plane back as it was stored, laid out as it was given. Waits for the copy. REQUIRES:
  // the operand is of this device; `to` holds its bytes.
  virtual absl::Status Fetch(const ResidentOperand& operand, void* to);
  // Bytes moved by all copies so far, those of Store() and Fetch() included.
  virtual CopiedBytes copied() const { return {}; }
  // Maps bytes [offset, offset + bytes) of the file, which has them, and locks their pages, for
  // this device and others of its kind in the process to use in place. Null: works of this
  // device have their operands and results in memory of its own. FAILED_PRECONDITION: the
  // pages cannot be mapped or locked.
  virtual absl::StatusOr<std::shared_ptr<const SharedMapping>> MapShared(int file,
                                                                         std::uint64_t offset,
                                                                         std::uint64_t bytes);
  // Maps bytes [offset, offset + bytes) of another process's memory of this device, to be used in
  // place. `handle` is a cudaIpcMemHandle_t. INVALID_ARGUMENT: the allocation has not got these
  // bytes. FAILED_PRECONDITION: the handle cannot be opened, or this is no device for it.
  virtual absl::StatusOr<std::shared_ptr<const SharedMapping>> MapDeviceMemory(
      absl::string_view handle, std::uint64_t offset, std::uint64_t bytes);

  // The number of submitted launches that overlap usefully; the scheduler keeps at most this many
  // between Submit and callback.
  virtual int max_in_flight() const = 0;
  // With fewer in flight the device is, or soon will be, without work.
  virtual int busy_in_flight() const { return 1; }

  // The form of batch that works like this one gain by: kAlone where sharing a launch gives them
  // nothing.
  virtual BatchForm FormOf(const DeviceWork& work) const {
    static_cast<void>(work);
    return BatchForm::kAlone;
  }
  // If true, works may be stacks. Else a stack's products are submitted as groups, where Cut() does
  // not say otherwise as one. Groups always are.
  virtual bool takes_stacks() const { return false; }
  // Prepares a work for launches of about `slice_us` each, by its plan's prediction. Null: it
  // cannot be cut, or need not be, and is submitted alone, or as a group. A stack is always asked
  // for.
  virtual std::shared_ptr<SlicedWork> Cut(const DeviceWork& work, double slice_us) {
    static_cast<void>(work);
    static_cast<void>(slice_us);
    return nullptr;
  }

  // Starts the launch and returns at once, unless it may_run_here. The callback runs exactly
  // once, on a thread of the device or before this returns, and must not block: the next
  // launch may wait for it.
  // REQUIRES: the launch is of a form that FormOf() or Cut() gave, or alone.
  virtual void Submit(DeviceLaunch launch, Callback done) = 0;
};

}  // namespace gemmd
