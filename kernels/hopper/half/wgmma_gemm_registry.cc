#include "kernels/hopper/half/wgmma_gemm_registry.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "kernels/hopper/common/batch_steps.h"
#include "kernels/hopper/common/frame.h"
#include "kernels/hopper/common/operand_rules.h"
#include "kernels/hopper/half/group_gemm_entries.h"
#include "kernels/hopper/half/tiling_entry.h"
#include "kernels/hopper/half/tilings.h"
#include "kernels/hopper/half/wgmma_gemm_entries.h"
#include "kernels/hopper/half/wgmma_layout.h"
#include "kernels/hopper/small/small_batches.h"

namespace gemmd {
namespace {

using hopper::Frame;

static_assert(hopper::half::kWgmmaGemmVariants == hopper::half::kTilingCount,
              "BUILD.bazel names each tiling");
static_assert(hopper::half::kGroupGemmVariants == hopper::half::TilingsWithGroups(),
              "BUILD.bazel names each tiling that takes groups");

// The rate at which one core emulates, with checks, which is that of kernels on mma.sync
// (docs/lab/emulator.md): it ranks emulated kernels behind real ones.
constexpr double kEmulatedMacsPerUs = 100;

class HopperGemmEntry final : public hopper::half::TilingEntry {
 public:
  explicit HopperGemmEntry(int tiling)
      : TilingEntry({hopper::half::kTilings[tiling].name, "sm_90a",
                     hopper::half::kTilings[tiling].idea, Determinism::kBatchInvariant},
                    hopper::half::kTilings[tiling], hopper::half::kTileK, kEmulatedMacsPerUs),
        index_(tiling) {}

  std::string Rejection(const Problem& problem) const override {
    if (std::string rejection = hopper::TypeRejection(problem); !rejection.empty())
      return rejection;
    const DataType type = problem.a.type;
    if (problem.d.type != type && problem.d.type != DataType::kF32) {
      return absl::StrCat("writes ", Name(type), " or f32");
    }
    if (hopper::NeedsEpilogue(problem) && !tiling().has_epilogue) {
      return "has no epilogue and writes the operands' type";
    }
    for (const auto& [name, layout] : {std::pair<const char*, const MatrixLayout&>{"A", problem.a},
                                       {"B", problem.b},
                                       {"D", problem.d}}) {
      std::string rejection = hopper::StrideRejection(name, layout);
      if (!rejection.empty()) return rejection;
    }
    // A column-major D makes A the columns and B the rows of the frame.
    const Frame frame = hopper::MakeFrame(problem, {});
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
    // The id of kernels on mma.sync, which give the same bits: both add 16 products to the sum in
    // one step.
    return absl::StrCat("tensor-core-k16:", Name(problem.a.type), ":", Name(problem.accumulate));
  }

  bool TakesGroups(const Problem& problem, std::int64_t b_step) const override {
    // Groups are of the kernel's rows, and B has a map of three dimensions.
    const Frame frame = hopper::MakeFrame(problem, {});
    return tiling().takes_groups && !frame.is_swapped && frame.rows.is_k_major &&
           hopper::IsTensorStep(b_step);
  }

  absl::Status LaunchGroups(const Problem& problem, const Config& config, const RowGroups& groups,
                            const Arguments& arguments, const LaunchTarget& target) const override {
    return hopper::half::GroupGemmFor(target, index_)(problem, config, groups, arguments, target);
  }

 private:
  bool IsOfSmallProducts(const Problem& problem, std::int64_t problems) const override {
    return hopper::small::TakesBatch(problem, problems);
  }

  absl::Status LaunchVariant(const Problem& problem, const Config& config,
                             absl::Span<const Arguments> batch,
                             const LaunchTarget& target) const override {
    return hopper::half::WgmmaGemmFor(target, index_)(problem, config, batch, target);
  }

  const int index_;
};

}  // namespace

void AppendHopperGemm(std::vector<std::unique_ptr<const Kernel>>* kernels) {
  for (int tiling = 0; tiling < hopper::half::kTilingCount; ++tiling) {
    kernels->push_back(std::make_unique<HopperGemmEntry>(tiling));
  }
}

}  // namespace gemmd
