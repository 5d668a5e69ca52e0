#include "kernels/sm90/wgmma_gemm_registry.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "kernels/sm90/frame.h"
#include "kernels/sm90/operand_rules.h"
#include "kernels/sm90/tiling_entry.h"
#include "kernels/sm90/tilings.h"
#include "kernels/sm90/wgmma_gemm_entries.h"
#include "kernels/sm90/wgmma_layout.h"

namespace gemmd {
namespace {

using sm90::Frame;

static_assert(sm90::kTilingCount == sm90::kWgmmaGemmVariants);

// The rate at which one core emulates, with checks: it ranks emulated kernels behind real ones, and
// a little behind ladder A, which serves emulated devices where it can.
constexpr double kEmulatedMacsPerUs = 80;

class HopperGemmEntry final : public sm90::TilingEntry {
 public:
  explicit HopperGemmEntry(int tiling)
      : TilingEntry({sm90::kTilings[tiling].name, "sm_90a", sm90::kTilings[tiling].idea,
                     Determinism::kBatchInvariant},
                    sm90::kTilings[tiling], sm90::kTileK, kEmulatedMacsPerUs),
        index_(tiling) {}

  std::string Rejection(const Problem& problem) const override {
    if (std::string rejection = sm90::TypeRejection(problem); !rejection.empty()) return rejection;
    const DataType type = problem.a.type;
    if (problem.d.type != type && problem.d.type != DataType::kF32) {
      return absl::StrCat("writes ", Name(type), " or f32");
    }
    if (sm90::NeedsEpilogue(problem) && !tiling().has_epilogue) {
      return "has no epilogue and writes the operands' type";
    }
    for (const auto& [name, layout] : {std::pair<const char*, const MatrixLayout&>{"A", problem.a},
                                       {"B", problem.b},
                                       {"D", problem.d}}) {
      std::string rejection = sm90::StrideRejection(name, layout);
      if (!rejection.empty()) return rejection;
    }
    // In K-major or MN-major, as the transposition of D makes them rows or columns.
    const Frame frame = sm90::MakeFrame(problem, {});
    const char* const rows = frame.is_swapped ? "B" : "A";
    const char* const columns = frame.is_swapped ? "A" : "B";
    if (!frame.rows.is_k_major && !tiling().takes_mn_rows) {
      return absl::StrCat("takes ", rows, " with neighbours along K");
    }
    if (!frame.columns.is_k_major && !tiling().takes_mn_columns) {
      return absl::StrCat("takes ", columns, " with neighbours along K");
    }
    return SizeRejection(problem);
  }

  std::string NumericsId(const Problem& problem) const override {
    // That of mma.sync, whose bits these are: both add 16 products to the sum in one step.
    return absl::StrCat("tensor-core-k16:", Name(problem.a.type), ":", Name(problem.accumulate));
  }

 private:
  absl::Status LaunchVariant(const Problem& problem, const Config& config,
                             absl::Span<const Arguments> batch,
                             const LaunchTarget& target) const override {
    return sm90::WgmmaGemmFor(target, index_)(problem, config, batch, target);
  }

  const int index_;
};

}  // namespace

void AppendHopperGemm(std::vector<std::unique_ptr<const Kernel>>* kernels) {
  for (int tiling = 0; tiling < sm90::kTilingCount; ++tiling) {
    kernels->push_back(std::make_unique<HopperGemmEntry>(tiling));
  }
}

}  // namespace gemmd
