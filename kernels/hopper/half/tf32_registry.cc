#include "kernels/hopper/half/tf32_registry.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "kernels/hopper/common/operand_rules.h"
#include "kernels/hopper/half/tf32_gemm_entries.h"
#include "kernels/hopper/half/tf32_units.h"
#include "kernels/hopper/half/tiling_entry.h"
#include "kernels/hopper/half/tilings.h"
#include "kernels/hopper/half/wgmma_layout.h"

namespace gemmd {
namespace {

using hopper::half::Tiling;

static_assert(hopper::half::kTf32GemmVariants == hopper::half::TilingsWithEpilogue(),
              "BUILD.bazel names each tiling that has an epilogue");

constexpr double kEmulatedMacsPerUs = 20;  // with checks, on one core

// "sm90/one64x64" as "sm90/tf32_one64x64".
std::string NameOf(const Tiling& tiling) {
  return absl::StrCat("sm90/tf32_", std::string(tiling.name).substr(5));
}

class HopperTf32Entry final : public hopper::half::TilingEntry {
 public:
  explicit HopperTf32Entry(int tiling)
      : TilingEntry({NameOf(hopper::half::kTilings[tiling]), "sm_90a",
                     absl::StrCat("tf32: ", hopper::half::kTilings[tiling].idea),
                     Determinism::kBatchInvariant},
                    hopper::half::kTilings[tiling], hopper::half::kTileK / 2, kEmulatedMacsPerUs),
        index_(tiling) {}

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
      std::string rejection = hopper::StrideRejection(name, layout);
      if (!rejection.empty()) return rejection;
    }
    if (!problem.a_is_k_major()) return "takes A with neighbours along K";
    if (!problem.b_is_k_major()) return "takes B with neighbours along K";
    return SizeRejection(problem);
  }

  std::string NumericsId(const Problem&) const override { return "tensor-core-k8:tf32:f32"; }

 private:
  Problem InUnits(const Problem& problem) const override { return hopper::half::InHalves(problem); }

  absl::Status LaunchVariant(const Problem& problem, const Config& config,
                             absl::Span<const Arguments> batch,
                             const LaunchTarget& target) const override {
    return hopper::half::Tf32GemmFor(target, index_)(problem, config, batch, target);
  }

  const int index_;
};

}  // namespace

void AppendHopperTf32(std::vector<std::unique_ptr<const Kernel>>* kernels) {
  for (int tiling = 0; tiling < hopper::half::kTilingCount; ++tiling) {
    if (!hopper::half::kTilings[tiling].has_epilogue) continue;
    kernels->push_back(std::make_unique<HopperTf32Entry>(tiling));
  }
}

}  // namespace gemmd
