// The common part of registry entries of 16-bit products on mma.sync with cp.async or TMA: f16 or
// bf16 operands, row-major, not transposed, with 16-byte strides and no epilogue, and a result of
// their own type.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "kernels/kernel.h"

namespace gemmd::mma {

using HalfGemmLaunch = absl::Status (*)(const Problem&, const Arguments&, const LaunchTarget&);

// A kernel's rate on large products, as a share of DeviceTraits::half_gflops: measured on one
// device, and taken for those of its compute capability and of later ones.
struct HalfGemmSpeed {
  int compute_capability = 0;
  double f32_sums = 0;
  double f16_sums = 0;
};

// A kernel as values.
struct HalfGemmTraits {
  const char* name = "";
  const char* idea = "";
  int tile_m = 0;
  int tile_n = 0;
  int tile_k = 0;
  int stages = 0;
  int warps = 0;
  int raster_group = 0;
  int blocks_per_multiprocessor = 0;
  HalfGemmSpeed speeds[2];  // by compute capability; earlier devices go by the first
  bool only_by_name = false;
  bool is_reduced = false;
};

// Why such kernels do not take the problem, whatever the tile; empty if they do.
std::string HalfGemmRejection(const Problem& problem, bool accumulates_f16);

// Two kernels that step along K in order, 16 at a time, give the same bits.
std::string HalfGemmNumericsId(const Problem& problem);

class HalfGemmEntry : public Kernel {
 public:
  HalfGemmEntry(const HalfGemmTraits& traits, const char* architecture, bool accumulates_f16,
                HalfGemmLaunch cuda, HalfGemmLaunch emulated);

  // Says why a device of that compute capability cannot run it; empty where its code runs.
  virtual std::string CapabilityRejection(int compute_capability) const = 0;

  std::string UnavailableReason(const DeviceTraits& device) const override;
  std::string Rejection(const Problem& problem) const override;
  Config Configure(const Problem& problem, const DeviceTraits& device) const override;
  double PredictedUs(const Problem& problem, const Config& config,
                     const DeviceTraits& device) const override;
  std::uint64_t WorkspaceBytes(const Problem&, const Config&) const override { return 0; }
  std::string NumericsId(const Problem& problem) const override {
    return HalfGemmNumericsId(problem);
  }
  absl::Status Launch(const Problem& problem, const Config& config, const Arguments& arguments,
                      const LaunchTarget& target) const override;

 private:
  std::int64_t Tiles(const Problem& problem) const;

  const HalfGemmTraits values_;
  const bool accumulates_f16_;
  const HalfGemmLaunch cuda_;
  const HalfGemmLaunch emulated_;
};

}  // namespace gemmd::mma
