// The work that a device is given in one launch.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/gemm.h"
#include "server/device/host_buffer.h"
#include "server/device/planes.h"
#include "server/device/shared_mapping.h"
#include "server/device/stack.h"

namespace gemmd {

// Operands and result in host memory, laid out as the problem says; null or empty where
// the problem has none. They stay valid until the work's callback has been called.
struct HostBuffers : Planes<const void*> {
  HostBuffer d;  // as AllocateResult() gave it, or one piece of a SharedMapping
  // A plane that is not Access::kHost lies in a SharedMapping: of D the whole.
  Planes<Access> access;
  Access d_access = Access::kHost;
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
  // Bytes from one product's plane to the next one's, of a stack; 0: all have this one.
  virtual std::uint64_t step_bytes() const { return 0; }
  // The plane that Device::Fetch() brings back, its bytes there (0: it cannot be), and where this
  // begins in them.
  virtual const ResidentOperand& whole() const { return *this; }
  virtual std::uint64_t given_bytes() const { return 0; }
  virtual std::uint64_t begin_in_whole() const { return 0; }
};

// A D that stays: one work writes it, and others read it after that work's end.
class ResidentResult : public ResidentOperand {
 public:
  virtual void* memory() const = 0;
};

// The planes that lie on the device already, or stay there: they take no room for the work.
struct Residency : Planes<bool> {
  bool d = false;
};

// Planes in the memory of one device, landed as its Landed(problem) says; null where the plane is
// in a work's buffers, or the problem has none.
struct ResidentPlanes : Planes<std::shared_ptr<const ResidentOperand>> {
  std::shared_ptr<ResidentResult> d;  // as AllocateKept() gave it

  Residency which() const;
};

// One product, as the device gets it, or a stack of them.
struct DeviceWork {
  Problem problem;  // as the buffers have it; of a stack, one of its products
  Stack stack;
  Plan plan;  // chosen for the problem as it lands on this device; predicted for all products
  // Where the stack has groups, the plan for each number of rows that one has: so few that many
  // groups hold no more than their rows do. `plan` is then the largest one's, with the time of all,
  std::shared_ptr<const std::map<std::int64_t, Plan>> plans;
  // or one by which a launch takes all of them (Kernel::LaunchGroups()), with the same bits.
  bool groups_go_together = false;
  HostBuffers buffers;
  ResidentPlanes resident;
  // Works with the same number, 0 excepted, have the same B, with all that scales it, and the same
  // bias, and these stay where they are.
  std::uint64_t weights_id = 0;

  // All products' together.
  double flops() const { return FlopsOf(problem, stack); }
  std::int64_t rows() const { return RowsOf(problem, stack); }
  // Returns how many of its products are predicted to take no longer together; at least 1.
  std::int64_t ProductsWithin(double us) const;
};

// A work that goes in several launches, none of them long: parts of D, one after another. The
// object owns what the device keeps between them; dropping it before its last launch gives that up,
// and D is unspecified.
class SlicedWork {
 public:
  virtual ~SlicedWork() = default;
  virtual int slices() const = 0;  // at least 2
  // A launch may carry out several slices, until it is told that its turn is over
  // (DeviceLaunch::turn_is_over), and then takes less time than theirs.
  virtual bool may_go_on() const { return false; }
  // Launches that may go ahead of the first slice, while the device computes other works: each
  // brings a piece of what all slices read. The first slice brings the pieces that did not.
  virtual int pieces_ahead() const { return 0; }
  // The slice as products of their own, which are submitted as a group in its place. Empty: the
  // device carries slices out itself.
  virtual std::vector<DeviceWork> WorksOf(int slice) const {
    static_cast<void>(slice);
    return {};
  }
};

// A stack, some products a slice, which are works of their own.
class StackSlices final : public SlicedWork {
 public:
  // Null where one would do. REQUIRES: products_each >= 1.
  static std::shared_ptr<StackSlices> Make(const DeviceWork& stacked, std::int64_t products_each);

  int slices() const override { return slices_; }
  std::vector<DeviceWork> WorksOf(int slice) const override;

 private:
  StackSlices(DeviceWork stacked, int slices) : stacked_(std::move(stacked)), slices_(slices) {}

  const DeviceWork stacked_;
  const int slices_;
};

// Groups, some rows a slice, which are works of their own.
class GroupSlices final : public SlicedWork {
 public:
  // Slices of about `slice_us`. `cuts_rows`: a group may go in several, each of which reads its B.
  // Null where one slice would do. REQUIRES: the work has groups.
  static std::shared_ptr<GroupSlices> Make(const DeviceWork& grouped, double slice_us,
                                           bool cuts_rows);

  int slices() const override { return static_cast<int>(ends_.size()); }
  std::vector<DeviceWork> WorksOf(int slice) const override;

 private:
  // Rows of a product, counted from its first.
  struct Rows {
    std::int64_t product = 0;
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };

  explicit GroupSlices(DeviceWork grouped) : grouped_(std::move(grouped)) {}

  const DeviceWork grouped_;
  std::vector<Rows> rows_;
  std::vector<std::size_t> ends_;  // of the slices, in rows_
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
  // done, unless the last may_go_on(); index < sliced->slices().
  static DeviceLaunch Slice(std::shared_ptr<SlicedWork> sliced, int index) {
    DeviceLaunch launch(BatchForm::kSlice, {});
    launch.sliced = std::move(sliced);
    launch.slice = index;
    return launch;
  }

  // A piece of pieces_ahead(), as a slice that computes nothing.
  // REQUIRES: pieces are submitted in order, each once, all before the first slice.
  static DeviceLaunch Ahead(std::shared_ptr<SlicedWork> sliced, int piece) {
    DeviceLaunch launch = Slice(std::move(sliced), piece);
    launch.is_ahead = true;
    return launch;
  }

  BatchForm form = BatchForm::kAlone;
  std::vector<DeviceWork> works;       // empty of kSlice
  Plan rows_plan;                      // of kRows
  std::shared_ptr<SlicedWork> sliced;  // of kSlice
  int slice = 0;                       // of kSlice: which one, or which piece
  // Not 0: the launch, of kSlice, goes on with the slices before this one until its turn is over.
  int goes_on_to = 0;
  std::shared_ptr<const std::atomic<bool>> turn_is_over;  // not null where it goes on
  bool is_ahead = false;                                  // of kSlice: a piece
  // The submitter has nothing else to do: the device may carry the launch out, and call back,
  // before Submit() returns, where waking a thread of its own would take longer.
  bool may_run_here = false;

 private:
  DeviceLaunch(BatchForm launch_form, std::vector<DeviceWork> launch_works)
      : form(launch_form), works(std::move(launch_works)) {}
};

}  // namespace gemmd
