#include "kernels/workshop/blackwell_bf16/ladder_c_registry.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/mma/half_gemm_entry.h"
#include "kernels/workshop/blackwell_bf16/ladder_c_entries.h"
#include "kernels/workshop/blackwell_bf16/ladder_c_params.h"
#include "kernels/workshop/blackwell_bf16/ladder_c_steps.h"

namespace gemmd {
namespace {

// DeviceTraits::half_gflops of a B200 with 148 multiprocessors at 1.965 GHz, in TFLOP/s.
constexpr double kB200 = 1787;

// Returns what ladder_c_steps.h says about a step, as values. `published` is in TFLOP/s on a B200.
template <class Step>
constexpr mma::HalfGemmTraits Describe(double published) {
  mma::HalfGemmTraits traits;
  traits.name = Step::kName;
  traits.idea = Step::kIdea;
  traits.tile_m = Step::kTileM;
  traits.tile_n = Step::kTileN;
  traits.tile_k = Step::kTileK;
  traits.stages = 1;
  traits.warps = blackwell_bf16::kWarps;
  traits.raster_group = 1;
  traits.blocks_per_multiprocessor = 1;
  // No card has run them; and steps with bits of their own must not be chosen by a time that
  // depends on M.
  traits.only_by_name = true;
  traits.is_reduced = true;  // for all that is known
  traits.speeds[0] = traits.speeds[1] = {100, published / kB200, 0};
  return traits;
}

constexpr mma::HalfGemmTraits kSteps[] = {
    Describe<blackwell_bf16::C1>(5),         Describe<blackwell_bf16::C2>(155.0),
    Describe<blackwell_bf16::C3>(288.3),     Describe<blackwell_bf16::C4>(293.6),
    Describe<blackwell_bf16::C2Wide>(155.0), Describe<blackwell_bf16::C3Wide>(288.3),
    Describe<blackwell_bf16::C4Wide>(293.6), Describe<blackwell_bf16::C4Elected>(293.6),
};
static_assert(std::size(kSteps) == blackwell_bf16::kLadderCVariants);

class LadderCEntry final : public mma::HalfGemmEntry {
 public:
  explicit LadderCEntry(int step)
      : HalfGemmEntry(kSteps[step], "sm_100a", /*accumulates_f16=*/false,
                      blackwell_bf16::CudaLadderC(step), blackwell_bf16::EmulatedLadderC(step)),
        is_naive_(step == 0) {}

  std::string CapabilityRejection(int compute_capability) const override {
    if (compute_capability == 100) return "";
    return absl::StrCat("needs sm_100, this is sm_", compute_capability);
  }

  std::string Rejection(const Problem& problem) const override {
    Problem plain = problem;
    if (problem.b_is_k_major()) {
      plain.transpose_b = false;
      plain.b.order = Order::kRowMajor;
    }
    std::string rejection = HalfGemmEntry::Rejection(plain);
    if (!rejection.empty() || is_naive_) return rejection;
    // Strides of a tensor map have 40 bits.
    constexpr std::int64_t kLimit = (std::int64_t{1} << 40) / 2 - 8;
    const std::int64_t longest = std::max(
        {problem.a.leading_dimension, problem.b.leading_dimension, problem.d.leading_dimension});
    if (longest <= kLimit) return "";
    return absl::StrCat("takes leading dimensions up to ", kLimit, ", not ", longest);
  }

  std::string NumericsId(const Problem& problem) const override {
    return absl::StrCat(is_naive_ ? "f32-sum:" : "tcgen05-k16:", Name(problem.a.type));
  }

 private:
  const bool is_naive_;
};

}  // namespace

void AppendLadderC(std::vector<std::unique_ptr<const Kernel>>* kernels) {
  for (int step = 0; step < blackwell_bf16::kLadderCVariants; ++step) {
    kernels->push_back(std::make_unique<LadderCEntry>(step));
  }
}

}  // namespace gemmd
