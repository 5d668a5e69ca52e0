#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/sm90/frame.h"
#include "kernels/sm90/operand_rules.h"
#include "kernels/sm90/ragged_entries.h"
#include "kernels/sm90/ragged_params.h"
#include "kernels/sm90/ragged_workspace.h"
#include "kernels/sm90/wgmma_gemm_registry.h"

namespace gemmd {
namespace {

// Behind every entry that takes aligned lines: it is for those that no other takes.
constexpr double kCyclesPerUs = 1600;
constexpr double kBlockCycles = 1300;
constexpr double kTileCycles = 6000;
constexpr double kRepackUs = 4;
constexpr double kEmulatedMacsPerUs = 60;

double Tiles(std::int64_t lines, int tile) { return std::ceil(static_cast<double>(lines) / tile); }

class RaggedEntry final : public Kernel {
 public:
  RaggedEntry()
      : Kernel({"sm90/ragged256x128", "sm_90a",
                "lines that start anywhere: A repacked, B moved into place on its way to wgmma",
                Determinism::kBatchInvariant}) {}

  std::string UnavailableReason(const DeviceTraits& device) const override {
    return sm90::UnavailableReason(device);
  }

  std::string Rejection(const Problem& problem) const override {
    if (std::string rejection = sm90::TypeRejection(problem); !rejection.empty()) return rejection;
    if (sm90::NeedsEpilogue(problem)) return "has no epilogue and writes the operands' type";
    if (!problem.a_is_k_major()) return "takes A with neighbours along K";
    if (!problem.b_is_k_major()) return "takes B with neighbours along K";
    if (problem.d.order != Order::kRowMajor) return "writes D row-major";
    // Units of a repack and coordinates are 32 bits wide.
    constexpr std::int64_t kLimit = std::numeric_limits<std::int32_t>::max() - 1024;
    if (std::max({problem.m, problem.n, problem.k}) > kLimit ||
        problem.m > kLimit / ((problem.k + 7) / 8)) {
      return absl::StrCat("takes dimensions, and M * K / 8, up to ", kLimit);
    }
    return "";
  }

  Config Configure(const Problem&, const DeviceTraits&) const override {
    Config config;
    config.tile_m = sm90::kRaggedTileM;
    config.tile_n = sm90::kRaggedTileN;
    config.tile_k = 64;
    config.stages = sm90::RaggedLayout::kStages;
    config.warps = sm90::RaggedLayout::kThreads / 32;
    return config;
  }

  double PredictedUs(const Problem& problem, const Config&,
                     const DeviceTraits& device) const override {
    const double tiles =
        Tiles(problem.m, sm90::kRaggedTileM) * Tiles(problem.n, sm90::kRaggedTileN);
    const double k = static_cast<double>(problem.k);
    if (device.kind == DeviceKind::kEmulated) {
      return tiles * sm90::kRaggedTileM * sm90::kRaggedTileN * k / kEmulatedMacsPerUs;
    }
    const double waves = std::ceil(tiles / device.compute_units);
    const double bytes = 2.0 * static_cast<double>(problem.a.size_bytes()) +
                         static_cast<double>(problem.b.size_bytes() + problem.d.size_bytes());
    return kRepackUs + bytes / (device.memory_gbps * 1e3) +
           waves * (std::ceil(k / 64) * kBlockCycles + kTileCycles) / kCyclesPerUs;
  }

  std::uint64_t WorkspaceBytes(const Problem& problem, const Config&) const override {
    return sm90::RaggedWorkspaceBytes(problem);
  }

  std::string NumericsId(const Problem& problem) const override {
    return absl::StrCat("tensor-core-k16:", Name(problem.a.type), ":", Name(problem.accumulate));
  }

  absl::Status Launch(const Problem& problem, const Config& config, const Arguments& arguments,
                      const LaunchTarget& target) const override {
    if (target.emulator != nullptr) {
      return sm90::EmulatedRaggedGemm(problem, config, arguments, target);
    }
    return sm90::CudaRaggedGemm(problem, config, arguments, target);
  }
};

}  // namespace

void AppendHopperRaggedGemm(std::vector<std::unique_ptr<const Kernel>>* kernels) {
  kernels->push_back(std::make_unique<RaggedEntry>());
}

}  // namespace gemmd
