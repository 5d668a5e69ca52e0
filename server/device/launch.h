// The work that a device is given in one launch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/gemm.h"
#include "server/device/host_buffer.h"
#include "server/device/shared_mapping.h"

namespace gemmd {

// A plane that a work reads.
enum class WorkPlane : std::uint8_t {
  kA,
  kB,
  kC,
  kBias,
  kAScales,
  kBScales,
  kAZeroPoints,
  kBZeroPoints,
  kATensorScale,
  kBTensorScale,
};
inline constexpr WorkPlane kWorkPlanes[] = {
    WorkPlane::kA,           WorkPlane::kB,           WorkPlane::kC,
    WorkPlane::kBias,        WorkPlane::kAScales,     WorkPlane::kBScales,
    WorkPlane::kAZeroPoints, WorkPlane::kBZeroPoints, WorkPlane::kATensorScale,
    WorkPlane::kBTensorScale};
inline constexpr std::size_t kWorkPlaneCount = std::size(kWorkPlanes);
// The planes of one line: bias, and what scales the operands.
inline constexpr WorkPlane kVectorPlanes[] = {WorkPlane::kBias,        WorkPlane::kAScales,
                                              WorkPlane::kBScales,     WorkPlane::kAZeroPoints,
                                              WorkPlane::kBZeroPoints, WorkPlane::kATensorScale,
                                              WorkPlane::kBTensorScale};

// Returns whether the problem has the plane.
bool HasPlane(const Problem& problem, WorkPlane plane);
// The plane as the problem has it. Bias, scales and zero points are planes of one line.
// REQUIRES: the problem has it.
MatrixLayout PlaneOf(const Problem& problem, WorkPlane plane);
// 0 where the problem does not have it.
std::uint64_t PlaneBytes(const Problem& problem, WorkPlane plane);
// The bytes of scales, zero points and tensor scales of both operands: what quantization adds.
std::uint64_t ScaleBytes(const Problem& problem);

// Operands and result in host memory, laid out as the problem says; null or empty where
// the problem has none. They stay valid until the work's callback has been called.
struct HostBuffers {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;
  const void* bias = nullptr;
  const void* a_scales = nullptr;  // of the scaling's type
  const void* b_scales = nullptr;
  const void* a_zero_points = nullptr;
  const void* b_zero_points = nullptr;
  const void* a_tensor_scale = nullptr;  // one f32
  const void* b_tensor_scale = nullptr;
  HostBuffer d;  // as AllocateResult() gave it, or one piece of a SharedMapping
  // A plane that is not Access::kHost lies in a SharedMapping: of D the whole.
  Access a_access = Access::kHost;
  Access b_access = Access::kHost;
  Access c_access = Access::kHost;
  Access d_access = Access::kHost;

  const void*& of(WorkPlane plane);
  const void* of(WorkPlane plane) const { return const_cast<HostBuffers*>(this)->of(plane); }
};

// A plane that a device holds, in the layout that its works want. Its memory is free again when
// the last reference is gone.
class ResidentOperand {
 public:
  virtual ~ResidentOperand() = default;
  // The address in the device's memory.
  virtual const void* data() const = 0;
  // The plane's layout there.
  virtual const MatrixLayout& layout() const = 0;
  // Bytes that it takes of the device's memory.
  virtual std::uint64_t size_bytes() const = 0;
};

// A D that stays: one work writes it, and others read it after that work's end.
class ResidentResult : public ResidentOperand {
 public:
  virtual void* memory() const = 0;
};

// The planes that lie on the device already, or stay there: they take no room for the work.
struct Residency {
  bool a = false;
  bool b = false;
  bool c = false;
  bool bias = false;
  bool a_scales = false;  // zero points and the scale of the tensor too
  bool b_scales = false;
  bool d = false;

  bool of(WorkPlane plane) const;
};

// Planes in the memory of one device, landed as its Landed(problem) says; null where the plane is
// in a work's buffers, or the problem has none.
struct ResidentPlanes {
  std::shared_ptr<const ResidentOperand> a;
  std::shared_ptr<const ResidentOperand> b;
  std::shared_ptr<const ResidentOperand> c;
  std::shared_ptr<const ResidentOperand> bias;
  std::shared_ptr<const ResidentOperand> a_scales;
  std::shared_ptr<const ResidentOperand> b_scales;
  std::shared_ptr<const ResidentOperand> a_zero_points;
  std::shared_ptr<const ResidentOperand> b_zero_points;
  std::shared_ptr<const ResidentOperand> a_tensor_scale;
  std::shared_ptr<const ResidentOperand> b_tensor_scale;
  std::shared_ptr<ResidentResult> d;  // as AllocateKept() gave it

  std::shared_ptr<const ResidentOperand>& of(WorkPlane plane);
  const std::shared_ptr<const ResidentOperand>& of(WorkPlane plane) const;
  Residency which() const;
};

// One product, as the device gets it.
struct DeviceWork {
  Problem problem;  // as the buffers have it
  Plan plan;        // chosen for the problem as it lands on this device
  HostBuffers buffers;
  ResidentPlanes resident;
  // Works with the same number, 0 excepted, have the same B, with all that scales it, and the same
  // bias, and these stay where they are.
  std::uint64_t weights_id = 0;
};

// A work that goes in several launches, none of them long: blocks of D, one after another. The
// object owns what the device keeps between them; dropping it before its last launch gives that up,
// and D is unspecified.
class SlicedWork {
 public:
  virtual ~SlicedWork() = default;
  virtual int slices() const = 0;  // at least 2
};

enum class BatchForm : std::uint8_t {
  kAlone,
  kRows,   // the rows of all works as one product: one plan, one read of B
  kGroup,  // products side by side, each with its own plan
  kSlice,  // a part of one work
};
constexpr std::size_t kBatchFormCount = 4;

// One launch.
struct DeviceLaunch {
  // A work alone.
  DeviceLaunch(DeviceWork work) {  // NOLINT(google-explicit-constructor): it is a launch
    works.push_back(std::move(work));
  }
  // `plan` is for the landed problem that has all rows.
  // REQUIRES: works differ in what their rows are alone, and have the same weights_id, not 0.
  static DeviceLaunch Rows(std::vector<DeviceWork> works, Plan plan) {
    DeviceLaunch launch(BatchForm::kRows, std::move(works));
    launch.rows_plan = std::move(plan);
    return launch;
  }
  // REQUIRES: not empty.
  static DeviceLaunch Group(std::vector<DeviceWork> works) {
    return {BatchForm::kGroup, std::move(works)};
  }
  // REQUIRES: slices are submitted in order, each once, the next perhaps before the last is
  // done; index < sliced->slices().
  static DeviceLaunch Slice(std::shared_ptr<SlicedWork> sliced, int index) {
    DeviceLaunch launch(BatchForm::kSlice, {});
    launch.sliced = std::move(sliced);
    launch.slice = index;
    return launch;
  }

  BatchForm form = BatchForm::kAlone;
  std::vector<DeviceWork> works;       // empty of kSlice
  Plan rows_plan;                      // of kRows
  std::shared_ptr<SlicedWork> sliced;  // of kSlice
  int slice = 0;                       // of kSlice: which one
  // The submitter has nothing else to do: the device may carry the launch out, and call back,
  // before Submit() returns, where waking a thread of its own would take longer.
  bool may_run_here = false;

 private:
  DeviceLaunch(BatchForm launch_form, std::vector<DeviceWork> launch_works)
      : form(launch_form), works(std::move(launch_works)) {}
};

}  // namespace gemmd
