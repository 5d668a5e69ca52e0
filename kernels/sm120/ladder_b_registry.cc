#include "kernels/sm120/ladder_b_registry.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/mma/half_gemm_entry.h"
#include "kernels/sm120/ladder_b_entries.h"
#include "kernels/sm120/ladder_b_params.h"
#include "kernels/sm120/ladder_b_steps.h"

namespace gemmd {
namespace {

// What ladder_b_steps.h says about a step, as values.
template <class Step>
constexpr mma::HalfGemmTraits Describe(double efficiency) {
  mma::HalfGemmTraits traits;
  traits.name = Step::kName;
  traits.idea = Step::kIdea;
  traits.tile_m = sm120::kTileM;
  traits.tile_n = sm120::kTileN;
  traits.tile_k = Step::kTileK;
  traits.stages = Step::kStages;
  traits.warps = sm120::kWarps;
  traits.raster_group = Step::kRasterGroup;
  traits.blocks_per_multiprocessor = Step::kBlocksPerMultiprocessor;
  traits.efficiency = efficiency;
  return traits;
}

constexpr mma::HalfGemmTraits kSteps[] = {
    Describe<sm120::BcfDbfRw>(0.6), Describe<sm120::KStages>(0.6), Describe<sm120::TmaLoads>(0.6),
    Describe<sm120::TmaR32>(0.7),   Describe<sm120::TmaR64>(0.7),  Describe<sm120::TmaRw>(0.7)};
static_assert(std::size(kSteps) == sm120::kLadderBVariants);

constexpr bool kTensorLoads[] = {sm120::BcfDbfRw::kTensorLoads, sm120::KStages::kTensorLoads,
                                 sm120::TmaLoads::kTensorLoads, sm120::TmaR32::kTensorLoads,
                                 sm120::TmaR64::kTensorLoads,   sm120::TmaRw::kTensorLoads};
static_assert(std::size(kTensorLoads) == std::size(kSteps));

class LadderBEntry final : public mma::HalfGemmEntry {
 public:
  explicit LadderBEntry(int step)
      : HalfGemmEntry(kSteps[step], "sm_120a", /*accumulates_f16=*/false, sm120::CudaLadderB(step),
                      sm120::EmulatedLadderB(step)),
        loads_by_tma_(kTensorLoads[step]) {}

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
  for (int step = 0; step < sm120::kLadderBVariants; ++step) {
    kernels->push_back(std::make_unique<LadderBEntry>(step));
  }
}

}  // namespace gemmd
