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

// Indices into kTilings of those with an epilogue, in the order of kernel_compilations() in
// BUILD.bazel.
constexpr int kTf32Tilings[] = {0, 1, 4, 5, 6, 8, 9};
constexpr int kTf32TilingCount = sizeof(kTf32Tilings) / sizeof(kTf32Tilings[0]);
static_assert(kTf32TilingCount == hopper::half::kTf32GemmVariants);

constexpr double kEmulatedMacsPerUs = 20;  // with checks, on one core

// "sm90/one64x64" as "sm90/tf32_one64x64".
std::string NameOf(const Tiling& tiling) {
  return absl::StrCat("sm90/tf32_", std::string(tiling.name).substr(5));
}

class HopperTf32Entry final : public hopper::half::TilingEntry {
 public:
  explicit HopperTf32Entry(int variant)
      : TilingEntry({NameOf(hopper::half::kTilings[kTf32Tilings[variant]]), "sm_90a",
                     absl::StrCat("tf32: ", hopper::half::kTilings[kTf32Tilings[variant]].idea),
                     Determinism::kBatchInvariant},
                    hopper::half::kTilings[kTf32Tilings[variant]], hopper::half::kTileK / 2,
                    kEmulatedMacsPerUs),
        variant_(variant) {}

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
    return hopper::half::Tf32GemmFor(target, variant_)(problem, config, batch, target);
  }

  const int variant_;
};

}  // namespace

void AppendHopperTf32(std::vector<std::unique_ptr<const Kernel>>* kernels) {
  for (int variant = 0; variant < kTf32TilingCount; ++variant) {
    kernels->push_back(std::make_unique<HopperTf32Entry>(variant));
  }
}

}  // namespace gemmd
