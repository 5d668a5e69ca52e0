#include "kernels/workshop/ampere_mma/ladder_a_registry.h"

#include <cstdint>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/mma/half_gemm_entry.h"
#include "kernels/workshop/ampere_mma/ladder_a_entries.h"
#include "kernels/workshop/ampere_mma/ladder_a_params.h"
#include "kernels/workshop/ampere_mma/ladder_a_steps.h"

namespace gemmd {
namespace {

// TFLOP/s at 8192 cubed: published for an A100, with f16 sums, whose mma.sync is as quick with f32
// sums; and measured on an H200 in a burst (README.md).
struct Measured {
  double a100;
  double h200_f32_sums;
  double h200_f16_sums;
};

// DeviceTraits::half_gflops of the two, in TFLOP/s.
constexpr double kA100 = 234;
constexpr double kH200 = 803;

// Shared memory that a block may have, in KB, from a compute capability on: CUDA C++ Programming
// Guide, "Technical Specifications per Compute Capability".
struct SharedLimit {
  int compute_capability;
  std::uint32_t kilobytes;
};
constexpr SharedLimit kSharedLimits[] = {{80, 163}, {86, 99},  {87, 163},
                                         {89, 99},  {90, 227}, {120, 99}};

std::uint32_t SharedKilobytes(int compute_capability) {
  std::uint32_t kilobytes = 0;
  for (const SharedLimit& limit : kSharedLimits) {
    if (limit.compute_capability <= compute_capability) kilobytes = limit.kilobytes;
  }
  return kilobytes;
}

// The facts that ladder_a_steps.h states about a step, as values.
struct StepTraits {
  mma::HalfGemmTraits half_gemm;
  std::uint32_t shared_kilobytes = 0;
};

template <class Step>
constexpr StepTraits Describe(const Measured& measured) {
  mma::HalfGemmTraits traits;
  traits.name = Step::kName;
  traits.idea = Step::kIdea;
  traits.tile_m = Step::kTileM;
  traits.tile_n = Step::kTileN;
  traits.tile_k = Step::kTileK;
  traits.stages = Step::kStages;
  traits.warps = ampere_mma::LadderAShape<Step>::kThreads / 32;
  traits.raster_group = Step::kRasterGroup;
  traits.blocks_per_multiprocessor = Step::kBlocksPerMultiprocessor;
  traits.speeds[0] = {80, measured.a100 / kA100, measured.a100 / kA100};
  traits.speeds[1] = {90, measured.h200_f32_sums / kH200, measured.h200_f16_sums / kH200};
  return {traits, ampere_mma::LadderAShape<Step>::kSharedBytes / 1024};
}

// The published series has a03a and a03b as one step, which is a03b, and no a06: a03a has the
// figure of a02 there, a06 that of a05.
constexpr StepTraits kSteps[] = {
    Describe<ampere_mma::A01a>({75, 71.7, 71.7}),    Describe<ampere_mma::A01b>({73, 97.1, 97.4}),
    Describe<ampere_mma::A02>({212, 278.7, 284.9}),  Describe<ampere_mma::A03a>({212, 412.8, 407.6}),
    Describe<ampere_mma::A03b>({245, 413.2, 416.3}), Describe<ampere_mma::A04>({255, 431.8, 469.7}),
    Describe<ampere_mma::A05>({256, 439.4, 480.6}),  Describe<ampere_mma::A06>({256, 447.8, 473.7})};
static_assert(std::size(kSteps) == ampere_mma::kLadderAVariants);

class LadderAEntry final : public mma::HalfGemmEntry {
 public:
  explicit LadderAEntry(int step)
      : HalfGemmEntry(kSteps[step].half_gemm, "sm_80", /*accumulates_f16=*/true,
                      ampere_mma::CudaLadderA(step), ampere_mma::EmulatedLadderA(step)),
        shared_kilobytes_(kSteps[step].shared_kilobytes) {}

  std::string CapabilityRejection(int compute_capability) const override {
    if (compute_capability < 80) {
      return absl::StrCat("needs sm_80, this is sm_", compute_capability);
    }
    const std::uint32_t limit = SharedKilobytes(compute_capability);
    if (shared_kilobytes_ <= limit) return "";
    return absl::StrCat("needs ", shared_kilobytes_, " KB of shared memory for a block, sm_",
                        compute_capability, " has ", limit);
  }

 private:
  const std::uint32_t shared_kilobytes_;
};

}  // namespace

void AppendLadderA(std::vector<std::unique_ptr<const Kernel>>* kernels) {
  for (int step = 0; step < ampere_mma::kLadderAVariants; ++step) {
    kernels->push_back(std::make_unique<LadderAEntry>(step));
  }
}

}  // namespace gemmd
