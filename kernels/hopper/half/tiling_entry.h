// Registry entries of the Hopper GEMM, of which each is one tiling.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/hopper/half/tilings.h"
#include "kernels/kernel.h"

namespace gemmd::hopper::half {

// An entry adds the operands that it takes, the id of its arithmetic, and its launches.
class TilingEntry : public Kernel {
 public:
  std::string UnavailableReason(const DeviceTraits& device) const final;
  Config Configure(const Problem& problem, const DeviceTraits& device) const final;
  std::vector<Config> Alternatives(const Problem& problem, const DeviceTraits& device) const final;
  double PredictedUs(const Problem& problem, const Config& config,
                     const DeviceTraits& device) const final;
  double PredictedBatchUs(const Problem& problem, const Config& config, std::int64_t problems,
                          const DeviceTraits& device) const final;
  double PredictedGroupsUs(const Problem& problem, const Config& config, const RowGroups& groups,
                           const DeviceTraits& device) const final;
  std::uint64_t WorkspaceBytes(const Problem& problem, const Config& config) const final;
  absl::Status Launch(const Problem& problem, const Config& config, const Arguments& arguments,
                      const LaunchTarget& target) const final;
  absl::Status LaunchBatch(const Problem& problem, const Config& config,
                           absl::Span<const Arguments> batch,
                           const LaunchTarget& target) const final;

 protected:
  // `tile_k`: of a stage, in elements. `emulated_macs_per_us`: the rate at which one core emulates
  // it, with checks. The tiling outlives the entry.
  TilingEntry(Traits traits, const Tiling& tiling, int tile_k, double emulated_macs_per_us);

  const Tiling& tiling() const { return tiling_; }
  // Returns why the problem's dimensions are too large, or nothing. REQUIRES: both operands lie as
  // the entry takes them.
  std::string SizeRejection(const Problem& problem) const;

 private:
  // Returns whether a batch of that many goes as one of small products (kernels/hopper/small).
  virtual bool IsOfSmallProducts(const Problem& /*problem*/, std::int64_t /*problems*/) const {
    return false;
  }
  // Returns the problem in the units that layouts and maps count in: elements of 16 bits.
  virtual Problem InUnits(const Problem& problem) const { return problem; }
  // Launches one problem, or a batch of equal ones where the tiling TakesBatches().
  virtual absl::Status LaunchVariant(const Problem& problem, const Config& config,
                                     absl::Span<const Arguments> batch,
                                     const LaunchTarget& target) const = 0;

  // The emulator's time for so many clusters' tiles.
  double EmulatedUs(double tiles, std::int64_t k) const;

  const Tiling& tiling_;
  const int tile_k_;
  const double emulated_macs_per_us_;
};

}  // namespace gemmd::hopper::half
