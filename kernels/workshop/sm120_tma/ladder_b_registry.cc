#include "kernels/workshop/sm120_tma/ladder_b_registry.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/mma/half_gemm_entry.h"
#include "kernels/workshop/sm120_tma/ladder_b_entries.h"
#include "kernels/workshop/sm120_tma/ladder_b_params.h"
#include "kernels/workshop/sm120_tma/ladder_b_steps.h"

namespace gemmd {
namespace {

// TFLOP/s with f16 operands and f32 sums: measured on an H200 at 8192 cubed in a burst, and
// published for an RTX 5060 Laptop at 4096 cubed (README.md).
struct Measured {
  double h200;
  double rtx5060;
};

// DeviceTraits::half_gflops of the two, in TFLOP/s; of the second at 2.5 GHz.
constexpr double kH200 = 803;
constexpr double kRtx5060 = 25;

// The facts that ladder_b_steps.h states about a step, as values.
struct StepTraits {
  mma::HalfGemmTraits half_gemm;
  bool loads_by_tma = false;
};

template <class Step>
constexpr StepTraits Describe(const Measured& measured) {
  using Layout = sm120_tma::LadderBLayout<Step>;
  mma::HalfGemmTraits traits;
  traits.name = Step::kName;
  traits.idea = Step::kIdea;
  traits.tile_m = sm120_tma::kTileM;
  traits.tile_n = sm120_tma::kTileN;
  traits.tile_k = Step::kTileK;
  traits.stages = Step::kStages;
  traits.warps = Layout::kThreads / 32;
  traits.raster_group = Step::kRasterGroup;
  traits.blocks_per_multiprocessor = Step::kBlocksPerMultiprocessor;
  traits.speeds[0] = {90, measured.h200 / kH200, 0};
  traits.speeds[1] = {120, measured.rtx5060 / kRtx5060, 0};
  return {traits, Step::kTensorLoads};
}

// A step that was not published has the figure of the one that it derives from.
constexpr StepTraits kSteps[] = {
    Describe<sm120_tma::BcfDbfRw>({352.8, 34.00}),  Describe<sm120_tma::KStages>({363.6, 33.27}),
    Describe<sm120_tma::TmaLoads>({441.5, 33.27}),  Describe<sm120_tma::TmaR32>({483.2, 34.31}),
    Describe<sm120_tma::TmaR64>({502.9, 32.05}),    Describe<sm120_tma::TmaRw>({483.2, 34.31}),
    Describe<sm120_tma::PairBoxes>({482.2, 34.31}), Describe<sm120_tma::WarpRelease>({432.6, 34.31}),
    Describe<sm120_tma::Warps64>({464.5, 34.31}),   Describe<sm120_tma::Warps64K64>({516.4, 32.05}),
    Describe<sm120_tma::TmaRw64>({518.9, 32.05})};
static_assert(std::size(kSteps) == sm120_tma::kLadderBVariants);

class LadderBEntry final : public mma::HalfGemmEntry {
 public:
  explicit LadderBEntry(int step)
      : HalfGemmEntry(kSteps[step].half_gemm, "sm_120a", /*accumulates_f16=*/false,
                      sm120_tma::CudaLadderB(step), sm120_tma::EmulatedLadderB(step)),
        loads_by_tma_(kSteps[step].loads_by_tma) {}

  std::string CapabilityRejection(int compute_capability) const override {
    if (compute_capability == 90 || compute_capability == 120) return "";
    return absl::StrCat("needs sm_90 or sm_120, this is sm_", compute_capability);
  }

  std::string Rejection(const Problem& problem) const override {
    std::string rejection = HalfGemmEntry::Rejection(problem);
    if (!rejection.empty() || !loads_by_tma_) return rejection;
    // Strides of a tensor map have 40 bits.
    constexpr std::int64_t kLimit = (std::int64_t{1} << 40) / 2 - 8;
    const std::int64_t longest = std::max(
        {problem.a.leading_dimension, problem.b.leading_dimension, problem.d.leading_dimension});
    if (longest <= kLimit) return "";
    return absl::StrCat("takes leading dimensions up to ", kLimit, ", not ", longest);
  }

 private:
  const bool loads_by_tma_;
};

}  // namespace

void AppendLadderB(std::vector<std::unique_ptr<const Kernel>>* kernels) {
  for (int step = 0; step < sm120_tma::kLadderBVariants; ++step) {
    kernels->push_back(std::make_unique<LadderBEntry>(step));
  }
}

}  // namespace gemmd
