#include "kernels/sm90/tf32_registry.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "kernels/sm90/frame.h"
#include "kernels/sm90/operand_rules.h"
#include "kernels/sm90/predicted_time.h"
#include "kernels/sm90/tf32_gemm_entries.h"
#include "kernels/sm90/tf32_units.h"
#include "kernels/sm90/tilings.h"
#include "kernels/sm90/wgmma_layout.h"

namespace gemmd {
namespace {

using sm90::Tiling;

// Of kTilings, in the order of kernel_compilations() in BUILD.bazel: those with an epilogue.
constexpr int kTf32Tilings[] = {0, 1, 4, 5, 6, 8, 9};
constexpr int kTf32TilingCount = sizeof(kTf32Tilings) / sizeof(kTf32Tilings[0]);
static_assert(kTf32TilingCount == sm90::kTf32GemmVariants);

constexpr double kEmulatedMacsPerUs = 20;  // with checks, on one core

// "sm90/one64x64" as "sm90/tf32_one64x64".
std::string NameOf(const Tiling& tiling) {
  return absl::StrCat("sm90/tf32_", std::string(tiling.name).substr(5));
}

class HopperTf32Entry final : public Kernel {
 public:
  explicit HopperTf32Entry(int variant)
      : Kernel({NameOf(sm90::kTilings[kTf32Tilings[variant]]), "sm_90a",
                absl::StrCat("tf32: ", sm90::kTilings[kTf32Tilings[variant]].idea),
                Determinism::kBatchInvariant}),
        variant_(variant),
        tiling_(sm90::kTilings[kTf32Tilings[variant]]) {}

  std::string UnavailableReason(const DeviceTraits& device) const override {
    return sm90::UnavailableReason(device);
  }

  std::string Rejection(const Problem& problem) const override {
    if (problem.a.type != DataType::kTf32 || problem.b.type != DataType::kTf32) {
      return "takes tf32 operands";
    }
    if (problem.d.type != DataType::kF32) return "writes f32";
    if (problem.accumulate != DataType::kF32) {
      return absl::StrCat("does not accumulate in ", Name(problem.accumulate));
    }
    for (const auto& [name, layout] : {std::pair<const char*, const MatrixLayout&>{"A", problem.a},
                                       {"B", problem.b},
                                       {"D", problem.d}}) {
      if (layout.leading_dimension % 4 == 0) continue;
      return absl::StrCat("takes a leading dimension of ", name, " that is a multiple of 4, not ",
                          layout.leading_dimension);
    }
    if (!problem.a_is_k_major()) return "takes A with neighbours along K";
    if (!problem.b_is_k_major()) return "takes B with neighbours along K";
    // Coordinates are 32 bits wide, with room for a tile past the end; those of K count halves.
    constexpr std::int64_t kLimit = std::numeric_limits<std::int32_t>::max() - 1024;
    if (std::max({problem.m, problem.n, 2 * problem.k}) > kLimit) {
      return absl::StrCat("takes dimensions up to ", kLimit, ", and half of that along K");
    }
    const sm90::Frame frame = sm90::MakeFrame(problem, {});
    const std::int64_t tiles = std::int64_t{1} *
                               sm90::FrameTiles(frame.rows.lines, tiling_.tile_m) *
                               sm90::FrameTiles(frame.columns.lines, tiling_.tile_n);
    if (tiles > kLimit) return absl::StrCat("takes up to ", kLimit, " tiles");
    return "";
  }

  Config Configure(const Problem& problem, const DeviceTraits&) const override {
    Config config;
    config.tile_m = tiling_.tile_m;
    config.tile_n = tiling_.tile_n;
    config.tile_k = sm90::kTileK / 2;
    config.stages = tiling_.max_stages;
    config.cluster_m = tiling_.cluster_m;
    config.cluster_n = tiling_.cluster_n;
    config.warps = 4 * (tiling_.consumers + 1);
    sm90::SetRaster(tiling_, sm90::InHalves(problem), &config);
    return config;
  }

  std::vector<Config> Alternatives(const Problem& problem,
                                   const DeviceTraits& device) const override {
    return sm90::Rasters(tiling_, problem, Configure(problem, device));
  }

  double PredictedUs(const Problem& problem, const Config& config,
                     const DeviceTraits& device) const override {
    return PredictedBatchUs(problem, config, 1, device);
  }

  double PredictedBatchUs(const Problem& problem, const Config& config, std::int64_t problems,
                          const DeviceTraits& device) const override {
    if (problems > 1 && !sm90::TakesBatches(tiling_)) {
      return Kernel::PredictedBatchUs(problem, config, problems, device);
    }
    if (device.kind != DeviceKind::kEmulated) {
      return sm90::PredictedTilingUs(tiling_, sm90::InHalves(problem), problems, device);
    }
    const sm90::Frame frame = sm90::MakeFrame(problem, {});
    const int rows = tiling_.tile_m * tiling_.cluster_m;
    const int columns = tiling_.tile_n * tiling_.cluster_n;
    return static_cast<double>(sm90::FrameTiles(frame.rows.lines, rows)) * rows *
           static_cast<double>(sm90::FrameTiles(frame.columns.lines, columns)) * columns *
           static_cast<double>(problem.k) * static_cast<double>(problems) / kEmulatedMacsPerUs;
  }

  std::uint64_t WorkspaceBytes(const Problem&, const Config&) const override { return 0; }

  std::string NumericsId(const Problem&) const override { return "tensor-core-k8:tf32:f32"; }

  absl::Status Launch(const Problem& problem, const Config& config, const Arguments& arguments,
                      const LaunchTarget& target) const override {
    return LaunchBatch(problem, config, absl::MakeConstSpan(&arguments, 1), target);
  }

  absl::Status LaunchBatch(const Problem& problem, const Config& config,
                           absl::Span<const Arguments> batch,
                           const LaunchTarget& target) const override {
    if (batch.size() > 1 && !sm90::TakesBatches(tiling_)) {
      return Kernel::LaunchBatch(problem, config, batch, target);
    }
    if (batch.empty()) return absl::OkStatus();
    return sm90::Tf32GemmFor(target, variant_)(problem, config, batch, target);
  }

 private:
  const int variant_;
  const Tiling& tiling_;
};

}  // namespace

void AppendHopperTf32(std::vector<std::unique_ptr<const Kernel>>* kernels) {
  for (int variant = 0; variant < kTf32TilingCount; ++variant) {
    kernels->push_back(std::make_unique<HopperTf32Entry>(variant));
  }
}

}  // namespace gemmd
