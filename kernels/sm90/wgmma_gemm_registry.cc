#include "kernels/sm90/wgmma_gemm_registry.h"

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
#include "kernels/sm90/tilings.h"
#include "kernels/sm90/wgmma_gemm_entries.h"
#include "kernels/sm90/wgmma_layout.h"

namespace gemmd {
namespace {

using sm90::Frame;
using sm90::Tiling;

static_assert(sm90::kTilingCount == sm90::kWgmmaGemmVariants);

// The rate at which one core emulates, with checks: it ranks emulated kernels behind real ones, and
// a little behind ladder A, which serves emulated devices where it can.
constexpr double kEmulatedMacsPerUs = 80;

std::string StrideRejection(const char* name, const MatrixLayout& layout) {
  const std::int64_t unit = 128 / SizeBits(layout.type);  // elements of 16 bytes
  if (layout.leading_dimension % unit == 0) return "";
  return absl::StrCat("takes a leading dimension of ", name, " that is a multiple of ", unit,
                      ", not ", layout.leading_dimension);
}

class HopperGemmEntry final : public Kernel {
 public:
  explicit HopperGemmEntry(int tiling)
      : Kernel({sm90::kTilings[tiling].name, "sm_90a", sm90::kTilings[tiling].idea,
                Determinism::kBatchInvariant}),
        index_(tiling),
        tiling_(sm90::kTilings[tiling]) {}

  std::string UnavailableReason(const DeviceTraits& device) const override {
    return sm90::UnavailableReason(device);
  }

  std::string Rejection(const Problem& problem) const override {
    if (std::string rejection = sm90::TypeRejection(problem); !rejection.empty()) return rejection;
    const DataType type = problem.a.type;
    if (problem.d.type != type && problem.d.type != DataType::kF32) {
      return absl::StrCat("writes ", Name(type), " or f32");
    }
    if (sm90::NeedsEpilogue(problem) && !tiling_.has_epilogue) {
      return "has no epilogue and writes the operands' type";
    }
    for (const auto& [name, layout] : {std::pair<const char*, const MatrixLayout&>{"A", problem.a},
                                       {"B", problem.b},
                                       {"D", problem.d}}) {
      std::string rejection = StrideRejection(name, layout);
      if (!rejection.empty()) return rejection;
    }
    // In K-major or MN-major, as the transposition of D makes them rows or columns.
    const Frame frame = sm90::MakeFrame(problem, {});
    const char* const rows = frame.is_swapped ? "B" : "A";
    const char* const columns = frame.is_swapped ? "A" : "B";
    if (!frame.rows.is_k_major && !tiling_.takes_mn_rows) {
      return absl::StrCat("takes ", rows, " with neighbours along K");
    }
    if (!frame.columns.is_k_major && !tiling_.takes_mn_columns) {
      return absl::StrCat("takes ", columns, " with neighbours along K");
    }
    // Coordinates are 32 bits wide, with room for a tile past the end.
    constexpr std::int64_t kLimit = std::numeric_limits<std::int32_t>::max() - 1024;
    if (std::max({problem.m, problem.n, problem.k}) > kLimit) {
      return absl::StrCat("takes dimensions up to ", kLimit);
    }
    const std::int64_t tiles = static_cast<std::int64_t>(Tiles(frame.rows.lines, tiling_.tile_m)) *
                               Tiles(frame.columns.lines, tiling_.tile_n);
    if (tiles > kLimit) return absl::StrCat("takes up to ", kLimit, " tiles");
    return "";
  }

  Config Configure(const Problem& problem, const DeviceTraits&) const override {
    Config config;
    config.tile_m = tiling_.tile_m;
    config.tile_n = tiling_.tile_n;
    config.tile_k = sm90::kTileK;
    config.stages = tiling_.max_stages;
    config.cluster_m = tiling_.cluster_m;
    config.cluster_n = tiling_.cluster_n;
    config.warps = 4 * (tiling_.consumers + 1);
    sm90::SetRaster(tiling_, problem, &config);
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
      return sm90::PredictedTilingUs(tiling_, problem, problems, device);
    }
    const Frame frame = sm90::MakeFrame(problem, {});
    const double rows =
        static_cast<double>(Tiles(frame.rows.lines, tiling_.tile_m * tiling_.cluster_m) *
                            tiling_.tile_m * tiling_.cluster_m);
    const double columns =
        static_cast<double>(Tiles(frame.columns.lines, tiling_.tile_n * tiling_.cluster_n) *
                            tiling_.tile_n * tiling_.cluster_n);
    return rows * columns * static_cast<double>(problem.k) * static_cast<double>(problems) /
           kEmulatedMacsPerUs;
  }

  std::uint64_t WorkspaceBytes(const Problem&, const Config&) const override { return 0; }

  std::string NumericsId(const Problem& problem) const override {
    // That of mma.sync, whose bits these are: both add 16 products to the sum in one step.
    return absl::StrCat("tensor-core-k16:", Name(problem.a.type), ":", Name(problem.accumulate));
  }

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
    return sm90::WgmmaGemmFor(target, index_)(problem, config, batch, target);
  }

 private:
  static std::int64_t Tiles(std::int64_t lines, int tile) { return (lines + tile - 1) / tile; }

  const int index_;
  const Tiling& tiling_;
};

}  // namespace

void AppendHopperGemm(std::vector<std::unique_ptr<const Kernel>>* kernels) {
  for (int tiling = 0; tiling < sm90::kTilingCount; ++tiling) {
    kernels->push_back(std::make_unique<HopperGemmEntry>(tiling));
  }
}

}  // namespace gemmd
