#include "kernels/sm80/ladder_a_registry.h"

#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/mma/half_gemm_entry.h"
#include "kernels/sm80/ladder_a_entries.h"
#include "kernels/sm80/ladder_a_params.h"
#include "kernels/sm80/ladder_a_steps.h"

namespace gemmd {
namespace {

// What ladder_a_steps.h says about a step, as values.
template <class Step>
constexpr mma::HalfGemmTraits Describe(double efficiency) {
  mma::HalfGemmTraits traits;
  traits.name = Step::kName;
  traits.idea = Step::kIdea;
  traits.tile_m = sm80::kTileM;
  traits.tile_n = sm80::kTileN;
  traits.tile_k = sm80::kTileK;
  traits.stages = Step::kStages;
  traits.warps = sm80::kThreads / 32;
  traits.raster_group = Step::kRasterGroup;
  traits.blocks_per_multiprocessor = sm80::kBlocksPerMultiprocessor;
  traits.efficiency = efficiency;
  return traits;
}

// Efficiency as published for 8192 cubed.
constexpr mma::HalfGemmTraits kSteps[] = {Describe<sm80::A01a>(0.24), Describe<sm80::A01b>(0.23),
                                          Describe<sm80::A02>(0.68),  Describe<sm80::A03a>(0.74),
                                          Describe<sm80::A03b>(0.79), Describe<sm80::A04>(0.82),
                                          Describe<sm80::A05>(0.82)};
static_assert(std::size(kSteps) == sm80::kLadderAVariants);

class LadderAEntry final : public mma::HalfGemmEntry {
 public:
  explicit LadderAEntry(int step)
      : HalfGemmEntry(kSteps[step], "sm_80", /*accumulates_f16=*/true, sm80::CudaLadderA(step),
                      sm80::EmulatedLadderA(step)) {}

  std::string CapabilityRejection(int compute_capability) const override {
    if (compute_capability >= 80) return "";
    return absl::StrCat("needs sm_80, this is sm_", compute_capability);
  }
};

}  // namespace

void AppendLadderA(std::vector<std::unique_ptr<const Kernel>>* kernels) {
  for (int step = 0; step < sm80::kLadderAVariants; ++step) {
    kernels->push_back(std::make_unique<LadderAEntry>(step));
  }
}

}  // namespace gemmd
