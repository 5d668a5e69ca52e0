#include "kernels/sm80/ladder_a_registry.h"

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
  return {Step::kName,         Step::kIdea,        sm80::kTileM,
          sm80::kTileN,        sm80::kTileK,       Step::kStages,
          sm80::kThreads / 32, Step::kRasterGroup, sm80::kBlocksPerMultiprocessor,
          efficiency};
}

// Efficiency as published for 8192 cubed.
constexpr mma::HalfGemmTraits kSteps[sm80::kLadderASteps] = {
    Describe<sm80::A01a>(0.24), Describe<sm80::A01b>(0.23), Describe<sm80::A02>(0.68),
    Describe<sm80::A03>(0.79),  Describe<sm80::A04>(0.82),  Describe<sm80::A05>(0.82)};

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
  for (int step = 0; step < sm80::kLadderASteps; ++step) {
    kernels->push_back(std::make_unique<LadderAEntry>(step));
  }
}

}  // namespace gemmd
