#include "kernels/hopper/ragged/ragged_registry.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "kernels/hopper/common/frame.h"
#include "kernels/hopper/common/operand_rules.h"
#include "kernels/hopper/half/tilings.h"
#include "kernels/hopper/half/wgmma_gemm_entries.h"
#include "kernels/hopper/ragged/params.h"
#include "kernels/hopper/ragged/product_entries.h"
#include "kernels/hopper/ragged/workspace.h"

namespace gemmd {
namespace {

constexpr double kCyclesPerUs = 1600;

// For predictions: behind every entry that takes aligned lines, because these are for lines that
// no other takes.
struct RaggedTiling {
  int tile_m = 0;
  int tile_n = 0;
  int stages = 0;
  int warps = 0;
  double repack_us = 0;
  double block_cycles = 0;
  double tile_cycles = 0;
  double emulated_macs_per_us = 0;
};

constexpr RaggedTiling LargeTiling() {
  RaggedTiling tiling;
  tiling.tile_m = hopper::ragged::kTileM;
  tiling.tile_n = hopper::ragged::kTileN;
  tiling.stages = hopper::ragged::ProductLayout::kStages;
  tiling.warps = hopper::ragged::ProductLayout::kThreads / 32;
  tiling.repack_us = 4;
  tiling.block_cycles = 1300;
  tiling.tile_cycles = 6000;
  tiling.emulated_macs_per_us = 60;
  return tiling;
}

constexpr RaggedTiling SmallTiling() {
  RaggedTiling tiling;
  tiling.tile_m = 64;
  tiling.tile_n = 64;
  tiling.stages = hopper::half::kTilings[hopper::half::kOne64x64].max_stages;
  tiling.warps = 8;
  tiling.repack_us = 4;
  tiling.block_cycles = 260;
  tiling.tile_cycles = 2000;
  tiling.emulated_macs_per_us = 55;
  return tiling;
}

double Tiles(std::int64_t lines, int tile) { return std::ceil(static_cast<double>(lines) / tile); }

// The common part of both entries, which take lines of K of any pitch.
class RaggedEntry : public Kernel {
 public:
  RaggedEntry(Traits traits, const RaggedTiling& tiling)
      : Kernel(std::move(traits)), tiling_(tiling) {}

  std::string UnavailableReason(const DeviceTraits& device) const override {
    return hopper::UnavailableReason(device);
  }

  std::string Rejection(const Problem& problem) const override {
    if (std::string rejection = hopper::TypeRejection(problem); !rejection.empty())
      return rejection;
    if (hopper::NeedsEpilogue(problem)) return "has no epilogue and writes the operands' type";
    if (!problem.a_is_k_major()) return "takes A with neighbours along K";
    if (!problem.b_is_k_major()) return "takes B with neighbours along K";
    if (problem.d.order != Order::kRowMajor) return "writes D row-major";
    // Units of a repack and coordinates are 32 bits wide.
    constexpr std::int64_t kLimit = std::numeric_limits<std::int32_t>::max() - 1024;
    if (std::max({problem.m, problem.n, problem.k}) > kLimit ||
        RepackedLines(problem) > kLimit / ((problem.k + 7) / 8)) {
      return absl::StrCat("takes dimensions, and ", repacked(), " * K / 8, up to ", kLimit);
    }
    return "";
  }

  Config Configure(const Problem&, const DeviceTraits&) const override {
    Config config;
    config.tile_m = tiling_.tile_m;
    config.tile_n = tiling_.tile_n;
    config.tile_k = 64;
    config.stages = tiling_.stages;
    config.warps = tiling_.warps;
    return config;
  }

  double PredictedUs(const Problem& problem, const Config&,
                     const DeviceTraits& device) const override {
    const double tiles = Tiles(problem.m, tiling_.tile_m) * Tiles(problem.n, tiling_.tile_n);
    const double k = static_cast<double>(problem.k);
    if (device.kind == DeviceKind::kEmulated) {
      return tiles * tiling_.tile_m * tiling_.tile_n * k / tiling_.emulated_macs_per_us;
    }
    const double waves = std::ceil(tiles / device.compute_units);
    const double bytes =
        2.0 * static_cast<double>(hopper::ragged::PlaneBytes(problem, RepackedLines(problem))) +
        static_cast<double>(problem.a.size_bytes() + problem.b.size_bytes() +
                            problem.d.size_bytes());
    return tiling_.repack_us + bytes / (device.memory_gbps * 1e3) +
           waves * (std::ceil(k / 64) * tiling_.block_cycles + tiling_.tile_cycles) / kCyclesPerUs;
  }

  std::uint64_t WorkspaceBytes(const Problem& problem, const Config&) const override {
    return hopper::ragged::PlaneBytes(problem, RepackedLines(problem));
  }

  std::string NumericsId(const Problem& problem) const override {
    return absl::StrCat("tensor-core-k16:", Name(problem.a.type), ":", Name(problem.accumulate));
  }

 protected:
  // Lines that may have to be copied.
  virtual std::int64_t RepackedLines(const Problem& problem) const = 0;
  // Their number in a rejection's words.
  virtual const char* repacked() const = 0;

 private:
  const RaggedTiling tiling_;
};

class LargeRaggedEntry final : public RaggedEntry {
 public:
  LargeRaggedEntry()
      : RaggedEntry(
            {"sm90/ragged256x128", "sm_90a",
             "lines that start anywhere: A repacked, B moved into place on its way to wgmma",
             Determinism::kBatchInvariant},
            LargeTiling()) {}

  absl::Status Launch(const Problem& problem, const Config&, const Arguments& arguments,
                      const LaunchTarget& target) const override {
    return hopper::ragged::ProductFor(target)(problem, arguments, target);
  }

 protected:
  std::int64_t RepackedLines(const Problem& problem) const override { return problem.m; }
  const char* repacked() const override { return "M"; }
};

// Products of few tiles, whose copies cost little.
class SmallRaggedEntry final : public RaggedEntry {
 public:
  SmallRaggedEntry()
      : RaggedEntry({"sm90/ragged64x64", "sm_90a",
                     "lines that start anywhere: A and B repacked for the tiles of one64x64",
                     Determinism::kBatchInvariant},
                    SmallTiling()) {}

  Config Configure(const Problem& problem, const DeviceTraits& device) const override {
    Config config = RaggedEntry::Configure(problem, device);
    config.raster_group = 8;
    return config;
  }

  absl::Status Launch(const Problem& problem, const Config& config, const Arguments& arguments,
                      const LaunchTarget& target) const override {
    const hopper::ragged::AlignedProblem aligned = hopper::ragged::AlignLines(problem, arguments);
    absl::Status status = hopper::ragged::RepackFor(target)(problem, arguments, target);
    if (!status.ok()) return status;
    return hopper::half::WgmmaGemmFor(target, hopper::half::kOne64x64)(
        aligned.problem, config, absl::MakeConstSpan(&aligned.arguments, 1), target);
  }

 protected:
  std::int64_t RepackedLines(const Problem& problem) const override {
    return problem.m + problem.n;
  }
  const char* repacked() const override { return "(M + N)"; }
};

}  // namespace

void AppendHopperRaggedGemm(std::vector<std::unique_ptr<const Kernel>>* kernels) {
  kernels->push_back(std::make_unique<LargeRaggedEntry>());
  kernels->push_back(std::make_unique<SmallRaggedEntry>());
}

}  // namespace gemmd
