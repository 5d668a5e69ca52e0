// The seam between a kernel and everything above it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/config.h"
#include "kernels/device_traits.h"
#include "kernels/problem.h"

struct CUstream_st;

namespace gemmd::emulator {
struct Session;
}  // namespace gemmd::emulator

namespace gemmd {

// Addresses in the memory of the device that launches. Each buffer holds at least
// size_bytes() of its layout; workspace holds what WorkspaceBytes() said.
struct Arguments {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;     // null where beta is 0
  const void* bias = nullptr;  // null where there is none
  void* d = nullptr;
  void* workspace = nullptr;       // aligned to 256 bytes
  const void* a_scales = nullptr;  // of the scaling's type; null where there are none
  const void* b_scales = nullptr;
  // No launch that may still run ahead in the stream writes A, or B, so that a launch which
  // overlaps those ahead of it may read the operand before they end.
  bool a_is_settled = false;
  bool b_is_settled = false;
  // Null where the scaling has none.
  const void* a_zero_points = nullptr;
  const void* b_zero_points = nullptr;
  const float* a_tensor_scale = nullptr;
  const float* b_tensor_scale = nullptr;
  const void* a_offsets = nullptr;  // of the scaling's type
  const void* b_offsets = nullptr;
};

// Products of one A, whose rows lie in groups, each by a B of its own. C and D have A's rows.
struct RowGroups {
  // Where each group's rows end; a group may have none. The last is the Problem's M.
  absl::Span<const std::int64_t> row_ends;
  // Bytes from a group's plane to the next one's; 0: all have the same one.
  std::int64_t b_step = 0;
  std::int64_t bias_step = 0;
};

// Runs independent pieces of work on the CPU's cores.
class ParallelExecutor {
 public:
  virtual ~ParallelExecutor() = default;
  // Calls body(worker, index) once for each index in [0, count), with 0 <= worker < workers();
  // two calls with the same worker never overlap. Returns when all have returned.
  virtual void Run(std::int64_t count,
                   absl::FunctionRef<void(int worker, std::int64_t index)> body) = 0;
  virtual int workers() const = 0;
};

// Where a launch goes. The device that launches sets the member of its kind.
struct LaunchTarget {
  ParallelExecutor* executor = nullptr;   // kCpu: the launch has finished when Launch() returns
  CUstream_st* stream = nullptr;          // kCuda: the launch is queued when Launch() returns
  emulator::Session* emulator = nullptr;  // kEmulated: the launch has finished, as for kCpu
};

// An immutable registry entry. Every method is const and thread-safe.
class Kernel {
 public:
  struct Traits {
    std::string name;          // "cpu/panel_f32", "sm90/..."
    std::string architecture;  // "cpu", "sm_90a"
    std::string description;   // one line: the idea
    Determinism determinism = Determinism::kFast;
    // Selection passes it over unless the request names it: it gives up accuracy, or no hardware
    // has run it, or it teaches.
    bool only_by_name = false;
    // It may lose 2^-9 of an element's magnitude more than the accumulate type promises.
    bool is_reduced = false;
    // The form of B that it takes; problems of another one never reach it.
    Packing b_packing = Packing::kNone;
  };

  explicit Kernel(Traits traits) : traits_(static_cast<Traits&&>(traits)) {}
  virtual ~Kernel() = default;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  const Traits& traits() const { return traits_; }

  // Why this device cannot run the kernel, in one line; empty if it can.
  virtual std::string UnavailableReason(const DeviceTraits& device) const = 0;

  // Why the kernel does not take the problem, in one line; empty if it does.
  virtual std::string Rejection(const Problem& problem) const = 0;

  // Asked after the two above, where both are empty: why this device has no code for the
  // problem, as only the device itself can tell; empty if it has. May start up a library.
  virtual std::string DeviceRejection(const Problem& /*problem*/,
                                      const DeviceTraits& /*device*/) const {
    return "";
  }

  // The following REQUIRE all of these to be empty.
  virtual Config Configure(const Problem& problem, const DeviceTraits& device) const = 0;
  // Every config worth measuring, the one of Configure() first.
  virtual std::vector<Config> Alternatives(const Problem& problem,
                                           const DeviceTraits& device) const {
    return {Configure(problem, device)};
  }
  virtual double PredictedUs(const Problem& problem, const Config& config,
                             const DeviceTraits& device) const = 0;
  // Predicts the time of a batch of that many problems.
  virtual double PredictedBatchUs(const Problem& problem, const Config& config,
                                  std::int64_t problems, const DeviceTraits& device) const {
    return static_cast<double>(problems) * PredictedUs(problem, config, device);
  }
  virtual std::uint64_t WorkspaceBytes(const Problem& problem, const Config& config) const = 0;

  // Two results with the same id have equal bits in equal rows. In class
  // kBatchInvariant it depends on N, K, types, layouts of B, device and version alone.
  virtual std::string NumericsId(const Problem& problem) const = 0;

  // NumericsId() of results that this config computed. Kernels whose bits depend on the config
  // override it.
  virtual std::string PlannedNumericsId(const Problem& problem, const Config& /*config*/) const {
    return NumericsId(problem);
  }

  // The problem is the one that the config was made for, or a panel of it: the same but
  // for fewer rows or fewer columns. REQUIRES of kCuda: the stream's device is the calling
  // thread's current one.
  virtual absl::Status Launch(const Problem& problem, const Config& config,
                              const Arguments& arguments, const LaunchTarget& target) const = 0;

  // A batch: one such problem for each of the arguments, with the bits that Launch() gives it.
  // Operands may be shared; results may not overlap. One workspace may serve all. Kernels that
  // have no form for a batch launch one after another; those that have need no more than equal
  // problems, and are quickest where their planes lie at equal distances.
  virtual absl::Status LaunchBatch(const Problem& problem, const Config& config,
                                   absl::Span<const Arguments> batch,
                                   const LaunchTarget& target) const {
    for (const Arguments& arguments : batch) {
      const absl::Status status = Launch(problem, config, arguments, target);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // Returns whether the kernel takes groups of the problem's rows in one launch, where its B lie
  // b_step bytes apart. The problem has the rows of all groups.
  virtual bool TakesGroups(const Problem& /*problem*/, std::int64_t /*b_step*/) const {
    return false;
  }
  // The following REQUIRE TakesGroups().
  virtual double PredictedGroupsUs(const Problem& problem, const Config& config,
                                   const RowGroups& /*groups*/, const DeviceTraits& device) const {
    return PredictedUs(problem, config, device);
  }
  // The arguments are those of all rows, with the first group's B and bias. Each row has the bits
  // that Launch() gives it in its group alone.
  virtual absl::Status LaunchGroups(const Problem& /*problem*/, const Config& /*config*/,
                                    const RowGroups& /*groups*/, const Arguments& /*arguments*/,
                                    const LaunchTarget& /*target*/) const {
    return absl::UnimplementedError("the kernel has no form for groups");
  }

 private:
  const Traits traits_;
};

}  // namespace gemmd
